"""The Door `jobs`: requests that svc sends later, stored with the rows of the project."""
