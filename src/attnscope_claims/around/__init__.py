"""The ten papers that build on the exchangeability paper: claims, a file each."""
