package terraformcli

import "time"

func hold(string) (let func()) { return func() {} }

func abandoned(string, time.Time) (let func(), ok bool) { return nil, false }

func seize(string) (let func(), ok bool) { return nil, false }
