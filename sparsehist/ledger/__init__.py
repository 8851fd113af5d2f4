"""What has been spent as one frozen value, the limits on it, and its table and export."""
