package terraformcli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/consul/api"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
)

// current returns the task's current state in the backend; empty if there is none.
// Files, keys in Consul and, in a container, objects in S3 are read without Terraform, which needs
// some 60 ms of CPU time, the checksum of each provider, and for Consul the lock. Only OpenTofu can read a
// state that it has encrypted.
func (d *Dir) current(ctx context.Context) ([]byte, error) {
	switch d.opts.Backend.Type {
	case "", "local":
		raw, err := readIfThere(d.localState())
		if err == nil && d.isDamaged(raw) {
			err = fmt.Errorf("the state of task %s is damaged: copy the latest whole state to %s, perhaps from its .backup", d.opts.Task, d.localState())
		}
		if !isEncrypted(raw) {
			return raw, err
		}
	case "consul":
		if state, err := d.consulState(ctx); err == nil {
			return state, nil
		}
	case "s3":
		if state, err := d.s3State(ctx); err == nil && !isEncrypted(state) {
			return state, nil
		}
	}
	var state []byte
	err := d.attempt(ctx, "state pull", func(string, string) (err error) {
		state, err = d.pull(ctx)
		return err
	})
	return state, err
}

// localState is the path of the task's state with the backend local.
func (d *Dir) localState() string {
	return filepath.Join(workspaceDir(d.path, d.opts.Backend), d.opts.Workspace, "terraform.tfstate")
}

// isDamaged reports whether a file is only a part of a local state. Terraform's lock makes an empty file.
func (d *Dir) isDamaged(raw []byte) bool {
	return raw != nil && !isState(raw) && (len(raw) > 0 || exists(d.localState()+".backup"))
}

// mendLocal replaces a local state that an apply could not write as a whole by the one that the apply
// began from. What that apply made is in neither.
func (d *Dir) mendLocal() (mended bool, err error) {
	if !local(d.opts.Backend) {
		return false, nil
	}
	file := d.localState()
	raw, err := readIfThere(file)
	if err != nil || !d.isDamaged(raw) {
		return false, err
	}
	began, known := d.begin()
	before, err := readIfThere(file + ".backup")
	mark, unreadable := markOf(before)
	switch {
	case err != nil || !known || unreadable != nil || mark.ID() != began.ID():
		return false, err // current reports it
	case before == nil:
		return true, os.Remove(file)
	}
	return true, os.Rename(file+".backup", file) // a copy may not fit on the disk
}

// privateState makes the state of a local backend, which may hold secrets, readable
// only for this user; after does so for the files that a command has written.
// Terraform creates them with mode 0644: until then, the directory protects them.
func (d *Dir) privateState() (after func()) {
	if d.opts.Backend.Type != "" && d.opts.Backend.Type != "local" {
		return func() {}
	}
	state := d.localState()
	restrict := func() {
		// Files of other users cannot be changed.
		_ = os.Chmod(filepath.Dir(state), 0o700)
		_ = os.Chmod(state, 0o600)
		_ = os.Chmod(state+".backup", 0o600)
	}
	_ = os.MkdirAll(filepath.Dir(filepath.Dir(state)), 0o755) // Terraform reports the error
	_ = os.Mkdir(filepath.Dir(state), 0o700)
	restrict()
	return restrict
}

func readIfThere(path string) ([]byte, error) {
	state, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return state, err
}

// errForTerraform means that only Terraform can read a state.
var errForTerraform = errors.New("this state is for Terraform to read")

// consulState reads the state from the Consul of the consul block. Terraform
// keeps it as JSON, with gzip or without; a large one is in several keys.
func (d *Dir) consulState(ctx context.Context) ([]byte, error) {
	path, ok := d.opts.plainConsul()
	if !ok || !d.opts.sameConsul() {
		return nil, errForTerraform
	}
	client, err := consul.New(d.opts.Consul)
	if err != nil {
		return nil, err
	}
	key := path + "-env:" + d.opts.Workspace
	pair, _, err := client.API().KV().Get(key, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("read %s in Consul: %w", key, err)
	}
	if pair == nil {
		return nil, nil
	}
	state := pair.Value
	if bytes.HasPrefix(state, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(bytes.NewReader(state))
		if err != nil {
			return nil, err
		}
		if state, err = io.ReadAll(unpacked); err != nil {
			return nil, err
		}
	}
	var index struct {
		Chunks  []string
		Version int
	}
	if err := json.Unmarshal(state, &index); err != nil || index.Version == 0 || len(index.Chunks) > 0 {
		return nil, errForTerraform
	}
	return state, nil
}

// plainConsul returns the path of a Consul backend that connects like the consul
// block.
func (o Options) plainConsul() (path string, ok bool) {
	body := o.Backend.Body
	for name, v := range body.Attributes {
		configured := map[string]string{"ca_file": o.Consul.TLS.CACert, "cert_file": o.Consul.TLS.Cert, "key_file": o.Consul.TLS.Key}[name]
		switch {
		case slices.Contains([]string{"address", "scheme", "path", "gzip", "lock"}, name):
		case v.IsNull() || v.Type() == cty.String && v.AsString() == configured && configured != "":
		default:
			return "", false
		}
	}
	path = argument(body, "path")
	return path, path != "" && len(body.Blocks) == 0
}
