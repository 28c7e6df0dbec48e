"""What makes the sentences of slr-07 false."""

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("run_experiment", "two_number_map", "same_path", "_extend_run")

MUTATIONS = (
    *replaced(
        "oracle",
        "the runs start anywhere on the spheres",
        "run_experiment",
        lambda run: lambda name, **options: run("init_sphere_small_lambda", **options),
    ),
    *moved("nu", "NU"),
    *moved("kappa", "KAPPA"),
    *moved("excess", "EXCESS"),
    *moved("limit", "LIMIT"),
    *replaced(
        "kappa-path",
        "steps of twice the size",
        "two_number_map",
        lambda mapped: lambda lam, alpha, *args: mapped(lam, 2 * alpha, *args),
    ),
)

REBUILT = {
    "nu after 20,000 steps": DROPPED,
    "excess risk in the limit (620,000 steps)": DROPPED,
}
