// Package formdata reads query strings and forms with limits. A parameter that occurs twice is an error.
package formdata
