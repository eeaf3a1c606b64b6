package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// canary shows examples/canary: a change that does not work at the first of three sites, and reaches the
// others when it is mended.
func (d *demo) canary(ctx context.Context) (err error) {
	d.heading("5. A canary: a change that does not work in Munich does not reach Berlin and Hamburg")
	if runtime.GOOS == "windows" {
		d.say("This step needs a shell: see examples/canary.")
		return nil
	}
	c := &sites{demo: d, dir: filepath.Join(d.dir, "examples", "canary")}
	if err := d.register(ctx, "web-1", 8080); err != nil {
		return err
	}
	if err := c.start(); err != nil {
		return err
	}
	defer c.stop()
	if err := c.have(ctx, 8080, "muc", "ber", "ham"); err != nil {
		return err
	}
	d.say("Three sites have a load balancer for web. web-1 moves to a port on which nothing answers:")

	if err := d.register(ctx, "web-1", 9999); err != nil {
		return err
	}
	if err := c.says(ctx, "not verified", "waits for web-muc"); err != nil {
		return err
	}
	if err := c.have(ctx, 8080, "ber", "ham"); err != nil {
		return err
	}
	d.say("Munich got it, and its verification failed. The others still have what works. web-1 moves back:")
	start := time.Now()
	if err := d.register(ctx, "web-1", 8080); err != nil {
		return err
	}
	if err := c.have(ctx, 8080, "muc", "ber", "ham"); err != nil {
		return err
	}
	if err := c.says(ctx); err != nil {
		return err
	}
	d.say("Verified in Munich and at rest everywhere after %s.", seconds(time.Since(start)))
	return nil
}

// sites are the sites of the canary, with an instance of their own.
type sites struct {
	*demo
	*process
	dir      string
	settings string
}

// start starts terrapulse in a copy of the example.
func (c *sites) start() error {
	for _, folder := range []string{"canary", filepath.Join("quickstart", "load-balancer")} {
		if err := os.CopyFS(filepath.Join(c.demo.dir, "examples", folder), os.DirFS(filepath.Join(c.top, "examples", folder))); err != nil {
			return fmt.Errorf("copy examples/%s: %w", folder, err)
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	c.settings = filepath.Join(c.demo.dir, "canary.yaml")
	content := fmt.Sprintf("port: %d\nbuffer_period: {min: 100ms, max: 1s}\n", ports[0])
	if err := os.WriteFile(c.settings, []byte(content), 0o600); err != nil {
		return err
	}
	c.process, err = startProcess(filepath.Join(c.demo.dir, "canary.log"), c.dir, c.env, c.terrapulse, "start", "-config-file", "tasks.yaml", "-config-file", c.settings)
	return err
}

// have waits until sites have a server with this port.
func (c *sites) have(ctx context.Context, port int, names ...string) error {
	return c.await(ctx, stepTimeout, func() error {
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(c.dir, "sync-tasks", "web-"+name, "haproxy.cfg"))
			if err != nil || !strings.Contains(string(text), fmt.Sprintf(":%d ", port)) {
				return fmt.Errorf("web-%s does not have the port %d", name, port)
			}
		}
		return nil
	})
}

// says waits until the status of the sites has these words, and shows why tasks are not at rest. Without
// words, it waits until all are.
func (c *sites) says(ctx context.Context, words ...string) error {
	var shown []string
	err := c.await(ctx, stepTimeout, func() error {
		cmd := exec.CommandContext(ctx, c.terrapulse, "status", "-config-file", "tasks.yaml", "-config-file", c.settings)
		cmd.Dir, cmd.Env = c.dir, c.env
		out, _ := cmd.Output() // its exit code says that a task needs a person
		shown = nil
		for _, line := range lines(string(out)) {
			why, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "why: "), "; `")
			if strings.HasPrefix(why, "applied, and not verified") || strings.HasPrefix(why, "waits for web-muc") {
				shown = append(shown, why)
			}
		}
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(strings.Join(shown, "\n"), word) })
		if missing || len(words) == 0 && (len(shown) > 0 || len(out) == 0) {
			return errors.New("the status is\n" + string(out))
		}
		return nil
	})
	if slices.Sort(shown); err == nil && len(shown) > 0 {
		fmt.Fprintf(c.out, "\n%s\n\n", indented(strings.Join(slices.Compact(shown), "\n")))
	}
	return err
}
