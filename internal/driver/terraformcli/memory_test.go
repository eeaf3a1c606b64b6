package terraformcli

import (
	"maps"
	"testing"
)

func TestMemory_CollectLess(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		name      string
		env, want map[string]string
		memory    uint64
		parallel  int
	}{
		{"one run", nil, map[string]string{"GOGC": "800", "GOMEMLIMIT": "2457MiB"}, 4 * gb, 1},
		{"four at a time", nil, map[string]string{"GOGC": "800", "GOMEMLIMIT": "614MiB"}, 4 * gb, 4},
		{"no parallelism set", nil, map[string]string{"GOGC": "800", "GOMEMLIMIT": "614MiB"}, gb, 0},
		{"too little memory", nil, nil, gb, 4},
		{"unknown memory", nil, nil, 0, 1},
		{"GOGC of the user", map[string]string{"GOGC": "50"}, map[string]string{"GOGC": "50"}, 4 * gb, 1},
		{"GOMEMLIMIT of the user", map[string]string{"GOMEMLIMIT": "1GiB"}, map[string]string{"GOMEMLIMIT": "1GiB"}, 4 * gb, 1},
	} {
		env := map[string]string{}
		maps.Copy(env, c.env)
		collectLess(env, c.memory, c.parallel)
		if !maps.Equal(env, c.want) {
			t.Errorf("%s: %v, want %v", c.name, env, c.want)
		}
	}
}

func TestEnvironment_LimitsMemoryUnlessTheTaskDoes(t *testing.T) {
	t.Setenv("GOGC", "")
	if env, err := (Options{Env: map[string]string{"GOGC": "77"}}).environment(); err != nil || env["GOGC"] != "77" || env["GOMEMLIMIT"] != "" {
		t.Errorf("GOGC=%s GOMEMLIMIT=%s: %v", env["GOGC"], env["GOMEMLIMIT"], err)
	}
	if memory() == 0 {
		t.Error("it is not known how much memory there is")
	}
}
