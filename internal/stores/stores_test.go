package stores_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/stores"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestAt_RefusesWrongURLs(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	for url, want := range map[string]string{
		"":                     "unknown kind of store; use one of sqlite:PATH, dynamodb://TABLE, consul:PATH",
		"postgres://host":      "unknown kind of store",
		"sqlite:":              "names no file",
		"dynamodb:table":       "names no table",
		"dynamodb://t?zone=1":  "unknown parameter zone",
		"consul:/":             "names no path",
		"/var/lib/terrapulse/": "unknown kind of store",
	} {
		if _, err := stores.At(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", url, err, want)
		}
	}
}

func TestWrite_OnlyAnInstancesOwnKindsOfStores(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	for url, want := range map[string]string{
		"dynamodb://table": "terrapulse invoke",
		"consul:a/b":       "high_availability",
	} {
		place, err := stores.At(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := place.Write(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want %q", url, err, want)
		}
	}
}

func TestConfigured_IsAFileInWorkingDirUnlessInACluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	place := stores.Configured(&config.Config{WorkingDir: dir})
	if want := filepath.Join(dir, stores.DefaultFile); place.File != want || place.Kind != "sqlite" || place.Where != want || !place.OneClock {
		t.Errorf("place is %q, on one clock: %t; want %q on one clock", place.File, place.OneClock, want)
	}
	if _, err := place.Read(t.Context()); err == nil {
		t.Error("a store that does not exist was opened for reading")
	}
	written, err := place.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	read, err := place.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read.Close()

	h := &config.HighAvailability{}
	place = stores.Configured(&config.Config{HighAvailability: h})
	if place.File != "" || place.Kind != "consul" || place.Where != h.Cluster.Path() || place.OneClock {
		t.Errorf("a cluster's store is at %q, on one clock: %t", place.File, place.OneClock)
	}
}

func TestHelp_NamesEveryKind(t *testing.T) {
	for _, form := range []string{"sqlite:PATH is ", "dynamodb://TABLE is ", "consul:PATH is "} {
		if !strings.Contains(stores.Help(), form) {
			t.Errorf("%q is missing in %q", form, stores.Help())
		}
	}
}
