package terraformcli

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsimple"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

const lockFile = ".terraform.lock.hcl"

// lockFile is the path of the file in which init records the providers that it has installed.
func (d *Dir) lockFile() string { return filepath.Join(d.path, lockFile) }

// lockedProvider is a provider in the lock file.
type lockedProvider struct {
	Source  string   `hcl:",label"`
	Version string   `hcl:"version,optional"`
	Hashes  []string `hcl:"hashes,optional"`
	Rest    hcl.Body `hcl:",remain"`
}

// lockedProviders returns the providers that init has installed.
func (d *Dir) lockedProviders() []lockedProvider {
	var locks struct {
		Providers []lockedProvider `hcl:"provider,block"`
		Rest      hcl.Body         `hcl:",remain"`
	}
	_ = hclsimple.DecodeFile(d.lockFile(), nil, &locks) // none without a lock file
	return locks.Providers
}

// forgetUnlocked removes from the directory the providers, or the links to them, that are not those of
// the lock file: Terraform would write new ones over what the links lead to.
func (d *Dir) forgetUnlocked() error {
	locked := d.lockedProviders()
	for _, name := range packagesIn(d.data("providers")) {
		path := d.data("providers", name)
		sum, err := packageSum(path)
		version := filepath.Dir(name)
		if err == nil && slices.ContainsFunc(locked, func(p lockedProvider) bool {
			return filepath.Join(filepath.FromSlash(p.Source), p.Version) == version && slices.Contains(p.Hashes, sum)
		}) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// unlockProviders removes providers from the lock file, so that the next init chooses their versions. It
// reports whether that was possible.
func (d *Dir) unlockProviders(sources []string) bool {
	raw, err := os.ReadFile(d.lockFile())
	if err != nil || len(sources) == 0 {
		return false
	}
	file, diags := hclwrite.ParseConfig(raw, lockFile, hcl.InitialPos)
	if diags.HasErrors() {
		return false
	}
	removed := false
	for _, block := range file.Body().Blocks() {
		if labels := block.Labels(); len(labels) == 1 && slices.Contains(sources, labels[0]) {
			removed = file.Body().RemoveBlock(block) || removed
		}
	}
	return removed && os.WriteFile(d.lockFile(), file.Bytes(), 0o600) == nil
}

// restoreLocks has the lock file be what it was before an init that has failed: what such an init has
// recorded may be wrong.
func (d *Dir) restoreLocks(before []byte) {
	if before == nil {
		_ = os.Remove(d.lockFile()) // unless there is none
		return
	}
	_ = os.WriteFile(d.lockFile(), before, 0o600) // else the next init reports the error
}
