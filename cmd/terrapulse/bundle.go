package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/aws/stack"
	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// place is where bundles are kept.
type place struct {
	bundle.Bucket
	stack *stack.Stack // nil if the place itself was named
}

// place returns where bundles are kept: at the URL, or where the stack of this name
// keeps them.
func (a *app) place(command, stackName string, urls []string) (*place, int) {
	p := &place{}
	if len(urls) > 1 {
		return nil, a.fail(exitFlags, fmt.Errorf("%s takes one place, got %q", command, urls))
	}
	if stackName == "" && len(urls) == 0 {
		return nil, a.fail(exitMissing, fmt.Errorf("no bundle location: terrapulse %s s3://BUCKET/PREFIX, or -stack=NAME", command))
	}
	cfg, err := awsconfig.ForCommand(a.ctx, "")
	if err == nil && stackName != "" {
		p.stack, err = stack.Find(a.ctx, stackName)
	}
	if err == nil && len(urls) == 0 {
		var url string
		url, err = p.stack.Output("BundleUrl")
		urls = []string{url}
	}
	if err == nil {
		p.Location, err = s3url.Parse(urls[0])
	}
	p.Client = s3.NewFromConfig(cfg)
	return p, a.fail(exitConfig, err)
}

// bundleFlags are the flags of a command that packs task files.
type bundleFlags struct {
	config configFlags
	stack  string
}

func (b *bundleFlags) register(f *flag.FlagSet) {
	b.config.register(f)
	b.config.tokenLater = true
	stackFlag(f, &b.stack)
}

// rehearse packs a configuration, and checks that it needs no file outside of the
// bundle. It returns the configuration as AWS will read it. The returned function
// removes the unpacked files.
func (a *app) rehearse(cfg *config.Config) (packed bundle.Bundle, there *config.Config, remove func(), err error) {
	if packed, err = bundle.Pack(cfg); err != nil {
		return packed, nil, func() {}, err
	}
	if there, remove, err = unpacked(packed); err != nil {
		return packed, nil, remove, fmt.Errorf("the configuration needs files that a bundle does not hold: %w", err)
	}
	return packed, there, remove, checkTasks(there).Err()
}

// unpacked loads a bundle from a temporary folder, which the returned function
// removes.
func unpacked(b bundle.Bundle) (*config.Config, func(), error) {
	dir, err := os.MkdirTemp("", "terrapulse-bundle-")
	if err != nil {
		return nil, func() {}, fmt.Errorf("create a folder for the bundle: %w", err)
	}
	cfg, err := bundle.Load(b.Zip, filepath.Join(dir, "files"), config.Options{})
	return cfg, func() { os.RemoveAll(dir) }, err
}
