"""Many documents on many machines: `ocria batch`, through Ray Data. docs/cluster.md says what users see."""
