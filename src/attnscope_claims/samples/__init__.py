"""What n = alpha d samples buy: claims on exact learning curves, a file each."""
