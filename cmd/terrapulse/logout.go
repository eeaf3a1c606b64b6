package main

import (
	"fmt"

	"github.com/terrapulse/terrapulse/internal/people/login"
)

// logoutCommand ends a sign-in on this machine.
func (a *app) logoutCommand() command {
	var api apiFlags
	f := a.flagSet("logout")
	api.registerCurrent(f)
	return command{flags: f, synopsis: "Sign out from an instance",
		examples: []string{"-http-addr=https://terrapulse.example.com:8558"}, codes: codesOfTask,
		help: `Usage: terrapulse logout [flags]

  Removes the tokens that terrapulse login has kept for the address of an
  instance. You stay signed in at the OpenID provider in your browser.
`,
		run: func([]string) int {
			_, address, code := a.loginClient(&api)
			if code >= 0 {
				return code
			}
			folder, err := login.Default()
			was := false
			if err == nil {
				was, err = folder.Remove(address)
			}
			switch {
			case err != nil:
				return a.problem("unable to sign out from "+address, err)
			case a.json:
				return a.printJSON(map[string]any{"address": address, "was_signed_in": was})
			case was:
				fmt.Fprintf(a.stdout, "Signed out from %s.\n", address)
			default:
				fmt.Fprintf(a.stdout, "You were not signed in at %s.\n", address)
			}
			return exitOK
		},
	}
}
