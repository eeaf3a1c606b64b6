package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/aws/gitssh"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/redact"
)

// sshCommand is the first argument with which git runs this program as its SSH client.
const sshCommand = "ssh"

// prepareModules lets Terraform and git download private modules. It writes credentials to files of
// this user, and removes them from the environment.
func prepareModules(s settings.Runner) error {
	dir := filepath.Join(s.Work, "git")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write the credentials of git: %w", err)
	}
	for _, prepare := range []func(settings.Runner, string) error{useGitCredentials, useSSHKey, useRegistryCredentials} {
		if err := prepare(s, dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"TERRAPULSE_GIT_CREDENTIALS", "TERRAPULSE_GIT_SSH_KEY", "TERRAPULSE_GIT_KNOWN_HOSTS", "TERRAPULSE_REGISTRY_CREDENTIALS"} {
		_ = os.Unsetenv(name)
	}
	// Without credentials git would wait for somebody who types them.
	_ = os.Setenv("GIT_TERMINAL_PROMPT", "0")
	return nil
}

// inFiles returns the secrets that prepareEnvironment writes to files.
func inFiles(settings settings.Runner) []string {
	return append(redact.Environment([]string{"GIT_CREDENTIALS=" + settings.GitCredentials}), settings.GitSSHKey, settings.ConsulKey)
}

// useGitCredentials makes git log in to hosts over HTTPS.
func useGitCredentials(settings settings.Runner, dir string) error {
	if settings.GitCredentials == "" {
		return nil
	}
	const from = "the secret that the parameter GitCredentialsArn names"
	file := filepath.Join(dir, "credentials")
	config := fmt.Sprintf("[credential]\n\thelper = %q\n", "store --file='"+file+"'")
	lines, forPaths := "", map[string]bool{}
	for i, line := range strings.Split(settings.GitCredentials, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		u, err := url.Parse(line) // err contains the password
		if err != nil || u.Scheme != "https" || u.User == nil || u.Host == "" {
			return fmt.Errorf("line %d of %s is not of the form https://USER:TOKEN@HOST, with special characters as %%XX", i+1, from)
		}
		lines += line + "\n"
		if len(u.Path) > 1 && !forPaths[u.Host] {
			forPaths[u.Host] = true
			config += fmt.Sprintf("[credential %q]\n\tuseHttpPath = true\n", "https://"+u.Host)
		}
	}
	err := errors.Join(os.WriteFile(file, []byte(lines), 0o600),
		os.WriteFile(filepath.Join(settings.Work, ".gitconfig"), []byte(config), 0o600)) // HOME is the work volume
	if err != nil {
		return fmt.Errorf("write the credentials of git: %w", err)
	}
	return nil
}

// useSSHKey makes git use this program as its SSH client, with the key.
func useSSHKey(settings settings.Runner, dir string) error {
	if settings.GitSSHKey == "" {
		return nil
	}
	if settings.GitKnownHosts == "" {
		return errors.New("there are no known hosts for git: store the output of `ssh-keyscan HOST` in a parameter of SSM, and set the parameter GitKnownHostsArn")
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	key, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	err = errors.Join(os.WriteFile(key, []byte(settings.GitSSHKey+"\n"), 0o600), os.WriteFile(hosts, []byte(settings.GitKnownHosts+"\n"), 0o600))
	if err != nil {
		return fmt.Errorf("write the SSH key of git: %w", err)
	}
	_ = os.Setenv("GIT_SSH_COMMAND", gitssh.Command(program, key, hosts))
	_ = os.Setenv("GIT_SSH_VARIANT", "ssh") // git then passes a port
	return nil
}

// hostName is a host of a registry: Terraform's variable for its token has no port.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// useRegistryCredentials makes Terraform log in to registries of modules and providers.
func useRegistryCredentials(settings settings.Runner, _ string) error {
	if settings.RegistryCredentials == "" {
		return nil
	}
	const wanted = `the secret that the parameter RegistryCredentialsArn names must be JSON with a token for each host, such as {"app.terraform.io": "TOKEN"}`
	var tokens map[string]string
	if json.Unmarshal([]byte(settings.RegistryCredentials), &tokens) != nil { // its error may quote a token
		return errors.New(wanted)
	}
	for host, token := range tokens {
		if !hostName.MatchString(host) {
			return fmt.Errorf("%q is no name of a host: %s", host, wanted)
		}
		_ = os.Setenv("TF_TOKEN_"+strings.NewReplacer("-", "__", ".", "_").Replace(host), strings.TrimSpace(token))
	}
	return nil
}
