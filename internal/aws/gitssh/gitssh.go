// Package gitssh is the SSH client that git uses in a container of AWS. OpenSSH refuses to work for
// a user without a name in /etc/passwd, which the user of the containers is, and not every image
// has it. It reads no configuration, and asks for nothing.
package gitssh

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Command returns the value of GIT_SSH_COMMAND with which git calls Run: program is the path of a
// program that passes its arguments after "ssh" to Run.
func Command(program, key, knownHosts string) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	return quote(program) + " ssh -i " + quote(key) + " -o " + quote(hostsOption+knownHosts)
}

// hostsOption is the option of OpenSSH with the file of the known hosts.
const hostsOption = "UserKnownHostsFile="

// failed is the exit code of OpenSSH if it could not run the command.
const failed = 255

// connectFor is the time limit until a server has accepted the key.
const connectFor = 30 * time.Second

// call is what git asks for.
type call struct {
	key, knownHosts  string
	network          string // tcp, or with 4 or 6 at the end
	user, host, port string
	sendEnv          []string
	command          string
}

// Run runs a command on a server, with the arguments that git passes to ssh, and returns its exit
// code.
func Run(args []string, in io.Reader, out, errs io.Writer) int {
	c, err := parse(args)
	if err == nil {
		err = c.run(in, out, errs)
	}
	var ended *ssh.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return cmp.Or(ended.ExitStatus(), failed)
	}
	fmt.Fprintln(errs, "ssh:", err)
	return failed
}

// parse reads the options of OpenSSH that git and Terraform use.
func parse(args []string) (call, error) {
	c := call{network: "tcp", user: "git", port: "22"}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option, value := args[0], ""
		args = args[1:]
		if !slices.Contains([]string{"-4", "-6"}, option) {
			if len(args) == 0 {
				return c, fmt.Errorf("option %s has no value", option)
			}
			value, args = args[0], args[1:]
		}
		hosts, isHosts := strings.CutPrefix(value, hostsOption)
		variable, isVariable := strings.CutPrefix(value, "SendEnv=")
		switch {
		case option == "-4" || option == "-6":
			c.network += option[1:]
		case option == "-i":
			c.key = value
		case option == "-p":
			c.port = value
		case option == "-o" && isHosts:
			c.knownHosts = hosts
		case option == "-o" && isVariable:
			c.sendEnv = append(c.sendEnv, variable)
		default:
			return c, fmt.Errorf("option %s %s is not supported", option, value)
		}
	}
	if len(args) < 2 {
		return c, errors.New("a host and a command are needed")
	}
	c.host, c.command = args[0], strings.Join(args[1:], " ")
	if user, host, ok := strings.Cut(c.host, "@"); ok {
		c.user, c.host = user, host
	}
	if _, err := strconv.ParseUint(c.port, 10, 16); err != nil {
		return c, fmt.Errorf("the port %q is not a number", c.port)
	}
	return c, nil
}

// run connects and runs the command.
func (c call) run(in io.Reader, out, errs io.Writer) error {
	client, err := c.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open a session on %s: %w", c.host, err)
	}
	defer session.Close()
	for _, name := range c.sendEnv {
		if value, ok := os.LookupEnv(name); ok {
			_ = session.Setenv(name, value) // servers may refuse it, and git continues without it
		}
	}
	session.Stdout, session.Stderr = out, errs
	// With session.Stdin, Run would wait for the end of in, and git may wait for this process first.
	pipe, err := session.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(pipe, in) // a server that does not read any more ends the session
		_ = pipe.Close()
	}()
	return session.Run(c.command)
}

// connect opens a connection to a server whose key is known.
func (c call) connect() (*ssh.Client, error) {
	text, err := os.ReadFile(c.key)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if errors.As(err, new(*ssh.PassphraseMissingError)) {
		return nil, errors.New("the private key has a passphrase: store one without, as git_ssh_key in the stack's secret")
	} else if err != nil {
		return nil, fmt.Errorf("git_ssh_key in the stack's secret contains no private key: %w", err)
	}
	known, err := knownhosts.New(c.knownHosts)
	if err != nil {
		return nil, fmt.Errorf("read the known hosts (git_known_hosts in the stack's secret): %w", err)
	}
	address := net.JoinHostPort(c.host, c.port)
	conn, err := net.DialTimeout(c.network, address, connectFor)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	_ = conn.SetDeadline(time.Now().Add(connectFor))
	link, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: c.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: known, HostKeyAlgorithms: algorithms(known, address),
	})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("log in to %s as %s: %w", address, c.user, c.explain(err))
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(link, channels, requests), nil
}

// explain adds to the error of a login what to do.
func (c call) explain(err error) error {
	var unknown *knownhosts.KeyError
	switch {
	case errors.As(err, &unknown) && len(unknown.Want) == 0:
		return fmt.Errorf("the host is not known: append the output of `ssh-keyscan -p %s %s`, after you have compared the keys, "+
			"to git_known_hosts in the stack's secret", c.port, c.host)
	case errors.As(err, &unknown):
		return fmt.Errorf("the server has another key than the known one (git_known_hosts): either its key was changed, or this is another server")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("the server does not accept the key (git_ssh_key): add its public key to the git host: %w", err)
	}
	return err
}

// algorithms returns the algorithms of the keys that are known of a host. Otherwise the server may
// present a key of another algorithm, which is not known.
func algorithms(known ssh.HostKeyCallback, address string) []string {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil
	}
	other, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil
	}
	var unknown *knownhosts.KeyError
	if !errors.As(known(address, &net.TCPAddr{}, other), &unknown) {
		return nil
	}
	var all []string
	for _, want := range unknown.Want {
		if want.Key.Type() == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		all = append(all, want.Key.Type())
	}
	return all
}
