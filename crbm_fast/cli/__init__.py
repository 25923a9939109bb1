"""The commands of `crbm-fast`."""
