"""The site: the service's pages, rendered on the server and readable without a script."""
