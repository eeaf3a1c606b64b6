package metrics_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/metrics"
)

func TestWrite_LineIsInEmbeddedMetricFormat(t *testing.T) {
	var out bytes.Buffer
	w := metrics.New(&out, "prod")
	if err := w.Write(time.UnixMilli(1700000000123), metrics.Values{metrics.RunSeconds: 1.5, metrics.RunsSucceeded: 1}); err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var want any
	json.Unmarshal([]byte(`{
		"_aws": {"Timestamp": 1700000000123, "CloudWatchMetrics": [{
			"Namespace": "Terrapulse", "Dimensions": [["Stack"]],
			"Metrics": [{"Name": "RunsSucceeded", "Unit": "Count"}, {"Name": "RunSeconds", "Unit": "Seconds"}]}]},
		"Stack": "prod", "RunSeconds": 1.5, "RunsSucceeded": 1}`), &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Errorf("not one line: %q", out.String())
	}
}

func TestWrite_NoValuesWriteNoLine(t *testing.T) {
	var out bytes.Buffer
	metrics.New(&out, "prod").Write(time.Now(), nil)
	var none *metrics.Writer
	none.Write(time.Now(), metrics.Values{metrics.Ticks: 1})
	if out.Len() > 0 {
		t.Error(out.String())
	}
}
