"""Files and folders that svc writes for itself."""
