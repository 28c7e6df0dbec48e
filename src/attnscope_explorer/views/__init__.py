"""One file per view of the explorer: state in, figure and sentences out."""
