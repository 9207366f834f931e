package oidc

// PresetNames is exported for tests.
var PresetNames = presetNames
