package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/web"
)

// Metrics has all metrics, in its own registry. It is created before the server, because the core and the
// runner report to it as well.
type Metrics struct {
	reg *prometheus.Registry
	requestMetrics
	runnerMetrics
	keyMetrics
	storeMetrics
	methods  methodMetrics
	lists    listMetrics
	sessions sessionMetrics
	storage  storageMetrics
	events   *prometheus.CounterVec
	ready    prometheus.Gauge

	known atomic.Pointer[map[string]bool]             // the configured methods; nil: not set yet
	tasks atomic.Pointer[func() (int, time.Duration)] // nil: this instance runs no tasks
}

// NewMetrics returns metrics at zero, including those of Go's runtime, of the process and of the build.
// Counters of events exist before the first event, because Prometheus does not count the appearance of a
// counter with the value 1 as an increase.
func NewMetrics() *Metrics {
	reg := prometheus.NewRegistry()
	f := promauto.With(reg)
	m := &Metrics{
		reg:            reg,
		requestMetrics: newRequestMetrics(f),
		runnerMetrics:  newRunnerMetrics(f),
		keyMetrics:     newKeyMetrics(f),
		storeMetrics:   newStoreMetrics(f),
		methods:        newMethodMetrics(f),
		lists:          newListMetrics(f),
		sessions:       newSessionMetrics(f),
		storage:        newStorageMetrics(f),
		events: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_events_total",
			Help: "Events that the core counts, by name; other: unknown to this release, " +
				"of a module that is newer or lies.",
		}, []string{"event"}),
		ready: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_ready",
			Help: "1 if /readyz of this instance returns 200, else 0: it stops, lacks a key, or cannot " +
				"read its store.",
		}),
	}
	for _, event := range host.CountNames() {
		m.events.WithLabelValues(event)
	}
	for _, direction := range []string{"sent", "heard"} {
		m.signals.WithLabelValues(direction)
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verge_runner_tasks_waiting", Help: "Tasks that this instance has claimed and not begun.",
	}, func() float64 { waiting, _ := m.backlog(); return float64(waiting) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "verge_runner_oldest_task_seconds",
		Help: "How long ago the oldest task that has not begun was due, as far as this instance " +
			"knows; 0: none.",
	}, func() float64 { _, oldest := m.backlog(); return oldest.Seconds() })
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewBuildInfoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// requestMetrics are about the connections and requests of the listeners.
type requestMetrics struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	waiting     prometheus.Gauge
	connections *prometheus.GaugeVec
	overLimit   *prometheus.CounterVec
}

func newRequestMetrics(f promauto.Factory) requestMetrics {
	return requestMetrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_http_requests_total",
			Help: "Responses sent, by route and status. " +
				"Route none: what was no request, or came too slowly to become one.",
		}, []string{"route", "status"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verge_http_request_seconds",
			Help: "Time from the end of a request's header to the end of its response, by route, without " +
				"the time that a request has waited for news.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15},
		}, []string{"route"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_http_in_flight", Help: "Requests in progress, without those that wait.",
		}),
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_http_waiting", Help: "Requests that wait for news, which have no place.",
		}),
		connections: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_http_connections", Help: "Connections open, by listener.",
		}, []string{"listener"}),
		overLimit: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_http_connections_turned_away_total",
			Help: "Connections above the limit, by result (gave_way: one " +
				"without an active request was closed for another, refused) and by the limit " +
				"(address, total).",
		}, []string{"listener", "became", "limit"}),
	}
}

// runnerMetrics are about the tasks that this instance runs.
type runnerMetrics struct {
	jobs        *prometheus.CounterVec
	jobLag      prometheus.Histogram
	jobSeconds  prometheus.Histogram
	jobsRunning prometheus.Gauge
	deferred    prometheus.Counter
	claimErrors prometheus.Counter
	signals     *prometheus.CounterVec
}

func newRunnerMetrics(f promauto.Factory) runnerMetrics {
	return runnerMetrics{
		jobs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_runner_jobs_total",
			Help: "Jobs run, by result: ok, or error if the store rejected the record.",
		}, []string{"result"}),
		jobLag: f.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_runner_lag_seconds", Help: "Time from a task falling due to its job beginning.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 120, 600},
		}),
		jobSeconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "verge_runner_job_seconds", Help: "Time a job ran.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}),
		jobsRunning: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_runner_jobs_running", Help: "Jobs running.",
		}),
		deferred: f.NewCounter(prometheus.CounterOpts{
			Name: "verge_runner_jobs_deferred_total",
			Help: "Leases given back because the job's lane was full.",
		}),
		claimErrors: f.NewCounter(prometheus.CounterOpts{
			Name: "verge_runner_claim_errors_total", Help: "Claims that the store rejected.",
		}),
		signals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_runner_signals_total",
			Help: "Signals between instances that tasks wait for another one, by direction: sent, heard.",
		}, []string{"direction"}),
	}
}

// keyMetrics are about the key ring, private keys and certificates.
type keyMetrics struct {
	missingKeys  prometheus.Gauge
	keys         *prometheus.GaugeVec
	sealingKey   *prometheus.GaugeVec
	ringUnread   prometheus.Gauge
	keyFailing   *prometheus.GaugeVec
	settingCert  *prometheus.GaugeVec
	certificate  *prometheus.GaugeVec
	certRejected prometheus.Gauge
}

func newKeyMetrics(f promauto.Factory) keyMetrics {
	return keyMetrics{
		missingKeys: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_keyring_missing_keys",
			Help: "Keys that other instances use and this one lacks. Above 0 this instance is not ready.",
		}),
		keys: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_keyring_key_info", Help: "1 for each key of the ring that this instance has.",
		}, []string{"key"}),
		sealingKey: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_keyring_sealing_key", Help: "1 for the active key of the ring.",
		}, []string{"key"}),
		ringUnread: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_keyring_unreadable",
			Help: "1 while the file of the key ring, or the program that prints it, fails, else 0. The " +
				"ring that was read before is in use.",
		}),
		keyFailing: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_private_key_failing",
			Help: "1 while the SSH agent does not sign with this private key, else 0. Keys of files have " +
				"no series.",
		}, []string{"key"}),
		settingCert: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_setting_certificate_expiry_timestamp_seconds",
			Help: "When a certificate of this service in a setting expires, in Unix time: those with which " +
				"wallet methods sign requests, and the client certificate of the store. The earliest one " +
				"of a chain counts.",
		}, []string{"setting"}),
		certificate: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_tls_certificate_expiry_timestamp_seconds",
			Help: "When the certificate of the listeners expires, in Unix time, by the name that it is for.",
		}, []string{"name"}),
		certRejected: f.NewGauge(prometheus.GaugeOpts{
			Name: "verge_tls_certificate_refused",
			Help: "1 while a new certificate is rejected and the previous one is in use, else 0.",
		}),
	}
}

// storeMetrics are about calls of the store.
type storeMetrics struct {
	storeFailing  *prometheus.GaugeVec
	storeRejected *prometheus.CounterVec
	storeSeconds  *prometheus.HistogramVec
}

func newStoreMetrics(f promauto.Factory) storeMetrics {
	return storeMetrics{
		storeFailing: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "verge_store_failing",
			Help: "1 while the store fails at reads, writes or counters, else 0.",
		}, []string{"what"}),
		storeRejected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "verge_store_refused_total", Help: "Failed store calls, by purpose.",
		}, []string{"what"}),
		storeSeconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "verge_store_operation_seconds",
			Help: "Time that the store took, by operation (get, list, commit, claim, spend) and " +
				"result: ok, conflict (others were quicker, which is no fault), refused, unknown (a commit " +
				"without a response), gave_up (the caller went away).",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5,
				5},
		}, []string{"operation", "result"}),
	}
}

// Count counts an event by name. It implements host.Observer. Names that the core does not list share one
// label: they would be time series that a module chose, and Prometheus panics on a name that is not UTF-8.
func (m *Metrics) Count(event string) { m.events.WithLabelValues(host.CountName(event)).Inc() }

// JobStarted, JobDone, JobDeferred, ClaimFailed, SignalSent and SignalHeard are called by a runner.
func (m *Metrics) JobStarted(lag time.Duration) {
	m.jobsRunning.Inc()
	m.jobLag.Observe(max(0, lag.Seconds()))
}

func (m *Metrics) JobDone(took time.Duration, err error) {
	m.jobsRunning.Dec()
	m.jobSeconds.Observe(took.Seconds())
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.jobs.WithLabelValues(result).Inc()
}

func (m *Metrics) JobDeferred() { m.deferred.Inc() }
func (m *Metrics) ClaimFailed() { m.claimErrors.Inc() }
func (m *Metrics) SignalSent()  { m.signals.WithLabelValues("sent").Inc() }
func (m *Metrics) SignalHeard() { m.signals.WithLabelValues("heard").Inc() }

// Tasks sets the function that returns the number of waiting tasks and how long the oldest one has been
// due. Each scrape calls it.
func (m *Metrics) Tasks(backlog func() (waiting int, oldest time.Duration)) { m.tasks.Store(&backlog) }

func (m *Metrics) backlog() (waiting int, oldest time.Duration) {
	if read := m.tasks.Load(); read != nil {
		return (*read)()
	}
	return 0, 0
}

// Keyring reports the number of keys of the fleet that this instance lacks, the ids of its keys, and whether
// the ring can be read again.
func (m *Metrics) Keyring(missing int, sealing string, keys []string, unread bool) {
	m.missingKeys.Set(float64(missing))
	m.ringUnread.Set(oneIf(unread))
	m.keys.Reset()
	for _, id := range keys {
		m.keys.WithLabelValues(id).Set(1)
	}
	m.sealingKey.Reset()
	m.sealingKey.WithLabelValues(sealing).Set(1)
}

// Certificate reports the expiry and the names of the certificate in use. It removes the names of the
// previous certificate.
func (m *Metrics) Certificate(names []string, expires time.Time) {
	m.certificate.Reset()
	for _, name := range names {
		m.certificate.WithLabelValues(name).Set(float64(expires.Unix()))
	}
}

// SettingCertificate reports the expiry of a certificate of a setting.
func (m *Metrics) SettingCertificate(setting string, expires time.Time) {
	m.settingCert.WithLabelValues(setting).Set(float64(expires.Unix()))
}

// CertificateRejected reports whether a new certificate was rejected.
func (m *Metrics) CertificateRejected(rejected bool) { m.certRejected.Set(oneIf(rejected)) }

// PrivateKey reports whether a private key outside of this process fails to sign.
func (m *Metrics) PrivateKey(name string, failing bool) {
	m.keyFailing.WithLabelValues(name).Set(oneIf(failing))
}

// oneIf returns the value of a gauge for a condition.
func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// StoreFailing and StoreRejected implement storehealth.Metrics.
func (m *Metrics) StoreFailing(what string, failing bool) {
	m.storeFailing.WithLabelValues(what).Set(oneIf(failing))
}

func (m *Metrics) StoreRejected(what string) { m.storeRejected.WithLabelValues(what).Inc() }

// StoreDone reports a call of the store.
func (m *Metrics) StoreDone(operation, result string, took time.Duration) {
	m.storeSeconds.WithLabelValues(operation, result).Observe(took.Seconds())
}

// expectFaults creates the counters of 500 responses at zero: see NewMetrics.
func (m *Metrics) expectFaults(routes web.Table) {
	for _, r := range routes {
		m.requests.WithLabelValues(r.Label, strconv.Itoa(http.StatusInternalServerError))
	}
}

func (m *Metrics) observe(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

// serveMetrics asks the store for its state first. Without requests, an instance receives no results from
// its store, so verge_store_failing would stay at 1 after the store has recovered. The check is the
// same as for /readyz: at most one read of the store per second.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Store != nil {
		_ = s.cfg.Store.Failing() // sets the metric
	}
	s.metrics.ready.Set(oneIf(s.readyNow(r.Context(), true).status == http.StatusOK))
	s.metrics.handler().ServeHTTP(w, r)
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{})
}
