"""What a person is to a resource, such as its owner, from whoever keeps that: a file, or a service for it."""
