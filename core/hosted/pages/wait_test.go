package pages

import "time"

// addWaits adds the pages of a hand-off, and those that wait.
func addWaits(add func(name string, change func(*View))) {
	add("box, with its code on a phone", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter = Method, againURL, 3*time.Second
		v.Open, v.Code, v.CodeShown = "openid4vp://?client_id=a", "https://b.example/c", true
	})
	add("camera, or a phone", func(v *View) {
		v.Kind, v.Words, v.Camera, v.Hand = Method, "estimator", true,
			true
	})
	add("camera of a phone", func(v *View) {
		v.Kind, v.Words, v.Camera, v.OnPhone = Method, "estimator", true, true
	})
	add("phone awaited", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Number = PhoneWait, againURL, 3*time.Second, "42"
		v.Code, v.RetryURL = "https://b.example/verify/phone/c", "/verify?flow=a"
	})
	add("phone at it", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Number, v.Taken = PhoneWait, againURL, 3*time.Second, "42", true
	})
	add("phone asked", func(v *View) {
		v.Kind, v.OnPhone, v.Number, v.Choices = Phone, true, "42", []Choice{{Outcome: "begin"}}
	})
	add("box, answered", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Answered = Method, againURL, 3*time.Second, true
	})
}
