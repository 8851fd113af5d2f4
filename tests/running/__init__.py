"""Series whose log goes on."""
