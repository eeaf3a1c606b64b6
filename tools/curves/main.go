// Command curves runs the growth benches, and draws how each cost grows with the number of tasks or
// services. It writes the pictures and the results to docs/scale:
//
//	go run -C tools/curves . -to ../../docs/scale
//
// With -from, it draws results that an earlier run has printed.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

func main() {
	to := flag.String("to", "../../docs/scale", "write pictures and results to this `folder`")
	from := flag.String("from", "", "read the results from this `file` instead of running the benches")
	only := flag.String("bench", "Growth", "the benches to run, as in go test -bench")
	flag.Parse()
	if err := drawAll(*from, *to, *only); err != nil {
		fmt.Fprintln(os.Stderr, "curves:", err)
		os.Exit(1)
	}
}

func drawAll(from, to, only string) error {
	text, err := results(from, only)
	if err != nil {
		return err
	}
	points, err := parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return fmt.Errorf("no results of growth benches; their names begin with Growth and have a size such as tasks=10")
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "results.txt"), clean(text), 0o644); err != nil {
		return err
	}
	for _, p := range pictures {
		if err := p.save(to, points); err != nil {
			return fmt.Errorf("draw %s: %w", p.file, err)
		}
	}
	return nil
}

// packages have the growth benches.
var packages = []string{"./internal/taskfile/config", "./internal/engine/decide", "./internal/engine/reconcile", "./internal/consul", "./internal/people/overview", "./internal/people/web", "./cmd/terrapulse"}

// results are what the benches print. Packages run one after the other: they would share the cores.
func results(from, only string) ([]byte, error) {
	if from != "" {
		return os.ReadFile(from)
	}
	var all bytes.Buffer
	args := append([]string{"test", "-C", "../..", "-trimpath", "-vet=off", "-p", "1", "-run", "^$", "-bench", only, "-benchtime", "1x", "-timeout", "60m"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&all, os.Stderr), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the benches: %w", err)
	}
	return all.Bytes(), nil
}

// clean leaves out lines that are no results, such as logs of benches.
func clean(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		for _, start := range []string{"Benchmark", "goos:", "goarch:", "pkg:", "cpu:"} {
			if bytes.HasPrefix(line, []byte(start)) {
				kept = append(kept, line...)
			}
		}
	}
	return kept
}

// point is one measured value. Curve is the name of the bench without its size, such as
// GrowthTick/idle.
type point struct {
	curve, unit string
	size, value float64
}

// parse reads results in the format of Go's benches.
func parse(r io.Reader) ([]point, error) {
	var points []point
	for reader := benchfmt.NewReader(r, "results"); reader.Scan(); {
		result, ok := reader.Result().(*benchfmt.Result)
		if !ok || !strings.HasPrefix(result.Name.String(), "Growth") {
			continue
		}
		curve, size := split(result.Name)
		if size == 0 {
			continue
		}
		for _, v := range result.Values {
			points = append(points, point{curve: curve, unit: cmp.Or(v.OrigUnit, v.Unit), size: size, value: cmp.Or(v.OrigValue, v.Value)})
		}
	}
	return points, nil
}

// split returns the name of a bench without its size, and the size; 0 if it has none.
func split(name benchfmt.Name) (curve string, size float64) {
	base, parts := name.Parts()
	curve = string(base)
	for _, part := range parts {
		text := string(part)
		if _, n, ok := strings.Cut(text, "="); ok {
			size, _ = strconv.ParseFloat(n, 64)
		} else if strings.HasPrefix(text, "/") {
			curve += text
		}
	}
	return curve, size
}

// curves returns the points of each curve that begins with one of the prefixes, in the order of their sizes.
func curves(points []point, unit string, prefixes []string) (names []string, byName map[string][]point) {
	byName = map[string][]point{}
	for _, p := range points {
		if p.unit == unit && slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(p.curve, prefix) }) {
			byName[p.curve] = append(byName[p.curve], p)
		}
	}
	for _, all := range byName {
		slices.SortFunc(all, func(a, b point) int { return cmp.Compare(a.size, b.size) })
	}
	return slices.Sorted(maps.Keys(byName)), byName
}
