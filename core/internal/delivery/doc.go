// Package delivery classifies the result of an attempt to deliver a webhook event (contract 26).
package delivery
