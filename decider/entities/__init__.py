"""People, teams and things that rules know beside the call: `entities.yaml`, and what Cedar gets of it."""
