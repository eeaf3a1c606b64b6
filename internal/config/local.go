package config

func localModule(string) bool { return false }
