// Command servicemonitor checks that standard input is a ServiceMonitor of the Prometheus operator, with no field that
// the operator does not know. The schemas of Kubernetes do not have such custom resources.
package main

import (
	"fmt"
	"io"
	"os"

	v1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = check(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servicemonitor:", err)
		os.Exit(1)
	}
}

func check(text []byte) error {
	var m v1.ServiceMonitor
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return err
	}
	if len(m.Spec.Endpoints) == 0 || len(m.Spec.Selector.MatchLabels) == 0 {
		return fmt.Errorf("it selects nothing: %+v", m.Spec)
	}
	return nil
}
