package overview

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/apiview"
	"github.com/terrapulse/terrapulse/internal/window"
)

// windowsOf says when changes of a task may be applied; nil if they may at any time.
func windowsOf(windows []window.Window, now time.Time) *apispec.TaskWindows {
	if len(windows) == 0 {
		return nil
	}
	status := window.StatusAt(windows, window.Change{Action: window.Apply}, now)
	shown := &apispec.TaskWindows{Open: status.Open, Until: apiview.Moment(status.Until), Text: status.Text}
	for i := range windows {
		w := &windows[i]
		shown.Windows = append(shown.Windows, apispec.TaskWindow{Kind: apispec.WindowKind(w.Kind), Inside: w.Inside(now), Text: w.String()})
	}
	return shown
}
