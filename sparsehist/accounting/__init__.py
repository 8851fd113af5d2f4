"""What has been spent, what it adds up to, and the limits that refuse more."""
