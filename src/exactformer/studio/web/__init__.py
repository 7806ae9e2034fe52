"""What routes share: requests, templates, markup, the page cache, error pages."""
