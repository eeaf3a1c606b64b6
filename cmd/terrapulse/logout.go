package main

import (
	"fmt"
	"time"

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
  instance. The refresh token is also revoked at the OpenID provider, if the
  provider has a revocation_endpoint. An ID token is valid until it expires:
  nobody can revoke it. You stay signed in at the provider in your browser.
`,
		run: func([]string) int {
			_, address, code := a.loginClient(&api)
			if code >= 0 {
				return code
			}
			return a.logout(address)
		},
	}
}

// logout removes the tokens first, so that they are gone whether the provider answers or not.
func (a *app) logout(address string) int {
	folder, err := login.Default()
	var end login.Ended
	if err == nil {
		end, err = folder.End(a.ctx, address)
	}
	switch {
	case err != nil && !end.Was:
		return a.problem("unable to sign out from "+address, err)
	case err != nil:
		fmt.Fprintf(a.stderr, "Warning: the refresh token was removed here, and could not be revoked: %s\n", err)
	}
	switch {
	case a.json:
		return a.printJSON(map[string]any{"address": address, "was_signed_in": end.Was, "revoked": end.Revoked})
	case !end.Was:
		fmt.Fprintf(a.stdout, "You were not signed in at %s.\n", address)
		return exitOK
	}
	fmt.Fprintf(a.stdout, "Signed out from %s.\n", address)
	if end.Revoked {
		fmt.Fprintln(a.stdout, "The OpenID provider has revoked the refresh token.")
	}
	if time.Now().Before(end.Expires) {
		fmt.Fprintf(a.stdout, "A copy of the ID token is valid until %s.\n", at(&end.Expires))
	}
	return exitOK
}
