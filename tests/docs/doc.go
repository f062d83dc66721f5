// Package docs runs the console examples of the documents.
package docs
