// Package brand has the rules for a publisher's brand on the hosted pages: an accent colour, from which all
// other colours of a page are computed, and a logo.
//
// [ReadLogo] accepts a PNG, JPEG or WebP image within the limits. It reads the structure of the file and
// decodes no pixel. [Colour.Palette] computes colours whose contrast follows WCAG 2.2.
package brand
