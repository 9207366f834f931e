package pages

import (
	_ "embed"
	"errors"
	"strconv"

	"github.com/verge-id/verge/core/method"
)

// The script of a page with a camera. It shows the camera's image, takes one photo, and adds it to the page's
// form. Without the script, the form accepts a file that the user takes or chooses.
//
//go:embed camera.js
var cameraJS []byte

var script = asset("camera", "js", javaScript, cameraJS)

// CameraScript returns the script that a page with View.Camera loads, and no other page. Such a page needs
// "script-src 'self'", and the permission to use the camera.
func CameraScript() Asset { return script }

// FileField is the name of the form's file (contract 37).
const FileField = "image"

// camera is the part of a page that takes a picture.
type camera struct {
	action string
	fields []Field
	max    string

	start, take, retake, use string            // on buttons
	file, hint               string            // of the file that is chosen
	otherFile, anyFile       string            // label and hint of the file field next to a camera
	taken                    string            // describes the picture to who cannot see it
	note                     string            // how the picture is used
	says                     map[string]string // the text of each state of the script
}

// cameraStates are the states of the script in which the page says something.
var cameraStates = []string{"asking", "live", "taken", "sending",
	"denied", "none", "busy", "failed", "small", "unreadable"}

func composeCamera(v View, t texts) (*camera, error) {
	if !localPath(v.FileAction) {
		return nil, errors.New("the FileAction must be a path on this host")
	}
	c := &camera{
		action: v.FileAction,
		fields: append([]Field{{"flow", v.Flow}}, v.Extra...),
		max:    strconv.Itoa(method.MaxFile),
		start:  t("camera.start"), take: t("camera.take"), retake: t("camera.retake"), use: t("camera.use"),
		file: t("camera.file"), hint: t("camera.hint"),
		otherFile: t("camera.file.other"), anyFile: t("camera.hint.any"),
		taken: t("camera.picture"), note: t("camera.note"), says: map[string]string{},
	}
	for _, state := range cameraStates {
		c.says[state] = t("camera.says." + state)
	}
	return c, nil
}
