package terraformcli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
)

// socketsVariable is the directory in which a provider opens its socket for
// Terraform.
const socketsVariable = "PLUGIN_UNIX_SOCKET_DIR"

// longestTemp is the maximum length of the path of the directory for temporary files in which there can be
// sockets, in bytes: macOS allows 104 for a socket's path, and providers name theirs "plugin" and a number of
// up to ten digits, in a directory of the command.
const longestTemp = 104 - len("/"+scratchPrefix+"1234567890/plugin1234567890") - 1

// socketsParent returns where the directories for sockets are: the directory for temporary files, or, if its path
// is too long, a short one that every system has.
func socketsParent() string {
	if len(os.TempDir()) <= longestTemp {
		return os.TempDir()
	}
	return "/tmp"
}

// guard prepares the environment of the next command, and returns it with the ID of the command:
// Consul's token, and a private directory for temporary files and for the sockets of providers. release
// removes both. (Providers with a go-plugin before 1.5 put sockets among temporary files.)
//
// The private directory replaces the TLS between Terraform and its providers, whose
// keys take half of the time of a small apply (109 ms with, 55 ms without, Terraform
// 1.11.4 on 2 cores). TLS stays on Windows, where providers listen on TCP ports.
func (d *Dir) guard() (env map[string]string, id string, release func(), err error) {
	var releases []func()
	release = func() {
		for _, f := range releases {
			f()
		}
	}
	opts := d.opts
	opts.Providers = append(slices.Clip(opts.Providers), d.moduleProviders()...)
	env, err = opts.environment()
	if err != nil {
		return nil, "", nil, err
	}
	env[markVariable] = d.path
	id, end := d.markCommand(env)
	releases = append(releases, end)
	if d.cache != "" {
		env["TF_PLUGIN_CACHE_DIR"] = d.cache
		env["TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE"] = "1" // no platform but this one reads the lock file
	}
	if opts.pipesToken() {
		path, stop, err := serve([]byte(opts.Consul.Token), d.readByTerraform)
		if err != nil {
			release()
			return nil, "", nil, fmt.Errorf("hand Consul's token to the backend of task %s: %w", d.opts.Task, err)
		}
		releases = append(releases, stop)
		env["CONSUL_HTTP_TOKEN_FILE"] = path
	}
	private := runtime.GOOS != "windows"
	if private {
		sockets, remove, err := scratchIn(socketsParent(), "")
		if err != nil {
			release()
			return nil, "", nil, fmt.Errorf("create a directory for the sockets of the providers of task %s (the path in TMPDIR may have %d characters): %w", d.opts.Task, longestTemp, err)
		}
		releases = append(releases, remove)
		env[socketsVariable] = sockets
		env["TMPDIR"] = cmp.Or(d.opts.Env["TMPDIR"], sockets)
	}
	err = errors.Join(d.tf.SetEnv(env), d.tf.SetDisablePluginTLS(private))
	if err != nil {
		release()
		return nil, "", nil, fmt.Errorf("environment of Terraform for task %s: %w", d.opts.Task, err)
	}
	return env, id, release, nil
}

// moduleProviders returns the names of the providers in the lock file, which init has
// installed. The task may list fewer.
func (d *Dir) moduleProviders() []string {
	var names []string
	for _, p := range d.lockedProviders() {
		names = append(names, path.Base(p.Source))
	}
	return names
}
