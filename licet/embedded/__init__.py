"""The whole house on one machine: the servers, keys and addresses that production gets from elsewhere."""
