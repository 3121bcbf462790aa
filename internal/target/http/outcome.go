package http

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// refused is what an answer other than 2xx means.
func (c *delivery) refused(resp *http.Response) job.Outcome {
	status := resp.StatusCode
	out := job.Outcome{Kind: job.Failed, Status: status, Gone: status == http.StatusGone}
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500 && status <= 599:
		out.Retryable = true
		out.RetryAfter = retryAfter(resp.Header)
	}
	text := strconv.Itoa(status) + " " + cmp.Or(http.StatusText(status), "(not a known status)")
	switch {
	case status >= 300 && status <= 399:
		text += ": redirects are not followed; set the url to where it leads" + c.leads(resp)
	case out.Gone:
		text += ": the target says that it is gone for ever; mend or delete the job, then resume it"
	}
	// That it broke off does not matter: the status is known.
	if head, _ := c.head(resp); head != "" {
		text += ": " + head
	}
	out.Message = text
	return out
}

// leads says where a redirect leads: scheme and host, as the rest may be secret.
func (c *delivery) leads(resp *http.Response) string {
	to, err := c.base.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" || to.Host == "" {
		return ""
	}
	return ", on " + c.show([]byte(to.Scheme+"://"+to.Host))
}

// retryAfter is what a target asks for: seconds, or a date. A date is compared
// with the answer's own Date, so that no clock of ours decides; without one it
// says nothing.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil { // more than fits
			return job.MaxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, job.MaxRetryAfter)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), job.MaxRetryAfter)
}
