package main

import (
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
)

// checkTasks returns what would make runs of the tasks fail, each problem once.
func checkTasks(cfg *config.Config) config.Errors {
	return driver.CheckAll(tfdriver.New(tfdriver.Options{}), cfg)
}
