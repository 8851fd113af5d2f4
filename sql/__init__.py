"""Every SQL statement the package runs, one file each; read with `importlib.resources.files`."""
