package pages

import (
	_ "embed"
	"errors"
)

// The script of a page that waits.
//
//go:embed wait.js
var waitJS []byte

var waitScript = asset("wait", "js", javaScript, waitJS)

// WaitScript returns the script that a page with View.AgainURL loads. Such a page needs "script-src 'self'"
// and "connect-src 'self'".
func WaitScript() Asset { return waitScript }

// ways is the content of a page that waits for a wallet or a phone (contract 34, 40).
type ways struct {
	open            link // opens an app on this device
	code            *qr  // for another device
	show            link // shows the code on a phone
	shown           bool // the code is shown on a phone, too
	orOpen, address string
}

// number is a number to compare on two screens.
type number struct{ label, text string }

// hand is the form that has a step done on a phone.
type hand struct {
	action, why, label string
	fields             []Field
}

// composeWays adds the ways in which the response can arrive.
func composeWays(p *page, v View, t texts) error {
	if v.Number != "" && !v.Taken {
		p.number = number{t("phone.number"), v.Number}
	}
	if v.Hand {
		if !localPath(v.Action) {
			return errors.New("the Action must be a path on this host")
		}
		p.hand = &hand{action: v.Action, why: t("hand.box"), label: t("hand.begin"),
			fields: append(append([]Field{{"flow", v.Flow}}, v.Extra...), Field{"hand", "open"})}
		if v.Camera {
			p.hand.why = t("hand.camera")
		}
	}
	if v.Open == "" && v.Code == "" {
		return nil
	}
	w := &ways{}
	p.ways = w
	if v.Open != "" {
		w.open = link{t("box.open"), v.Open}
	}
	if v.Code == "" {
		return nil
	}
	var err error
	if w.code, err = newQR(v.Code); err != nil {
		return err
	}
	w.code.what, w.code.hint = t("box.qr"), t("box.scan")
	if v.Kind == PhoneWait {
		w.code.hint, w.orOpen, w.address = t("phone.scan"), t("phone.address"), v.Code
	}
	w.shown = v.Open == "" || v.CodeShown
	if !w.shown && v.ShowCodeURL != "" {
		w.show = link{t("box.show"), v.ShowCodeURL}
	}
	return nil
}

// forPhone replaces the words of a page that a phone shows for another device. The phone does not return to
// the site.
func forPhone(p *page, t texts) {
	if n := len(p.steps); n > 0 {
		p.steps[n-1] = t("phone.step")
	}
	p.back = backLink{}
}
