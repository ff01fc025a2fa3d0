# frozen_string_literal: true

require "erb"
require "securerandom"

module Gristmill
  # What became of a push: `status` is `stored`, `exists`, `duplicate` (`id` is the other job's) or, of many, `refused`.
  Pushed = Struct.new(:id, :status, :problem)
  # How a job ended: `outcome` is `complete`, `dead`, `expired`, `cancelled` or `deleted`; `failure` has `reason`, `code`, `message`.
  End = Struct.new(:outcome, :result, :failure)
  # A job of a `push_many` that has options of its own.
  NewJob = Struct.new(:body, :options)

  # A client of one tenant. Threads may share it. Server and token are `$GRISTMILL_SERVER` (or http://127.0.0.1:7331) and `$GRISTMILL_TOKEN`,
  # unless they are given.
  class Client
    # Jobs in a request.
    BATCH = 1000
    # Seconds. The server sends a comment every 15, so a stream that is silent for longer is dead.
    QUIET = 45

    def initialize(server: nil, token: ENV["GRISTMILL_TOKEN"], tenant: "default", tries: 5)
      server ||= ENV["GRISTMILL_SERVER"].to_s.empty? ? "http://127.0.0.1:7331" : ENV["GRISTMILL_SERVER"]
      @http = Http.new(server, token, tries)
      @tenant, @stopped, @workers = "/v1/tenants/#{quote(tenant)}", false, []
    end

    # Pushes a job whose body is `body` as JSON, or bytes (a string of the encoding BINARY).
    #
    # Options: `delay`, `ttl`, `keep_result` (seconds), `at` (Time, or seconds since 1970), `key`, `unique`, `priority`, `after` (ids, or what
    # `push` returned), `after_failed`, `attempts`, `id`, `metadata`, `traceparent`, `batch`, `open`, `content_type`.
    def push(topic, body, **options) = send_jobs(topic, [fields(body, options)], false).first

    # Pushes a job for each body, or NewJob. Each request of up to 1000 jobs is stored as a whole.
    def push_many(topic, bodies, **options)
      jobs = bodies.map { |it| it.is_a?(NewJob) ? fields(it.body, options.merge(it.options)) : fields(it, options) }
      jobs.each_slice(BATCH).flat_map { |some| send_jobs(topic, some, true) }
    end

    # The End of a job, by its id or what `push` returned. It has the result if `keep_result` or the topic keeps it.
    def wait(job, timeout: 60)
      now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      ending = now.call + timeout
      loop do
        left = [0, ending - now.call].max
        view, = @http.call("GET", "#{path_of(job)}?wait_ms=#{[(left * 1000).ceil, 30_000].min}")
        if %w[finished dead].include?(view["state"])
          result = view["result"] || {}
          outcome = result["outcome"] || view.dig("ended", "outcome") || view["state"]
          return End.new(outcome, Gristmill.decode(result["output"]), result["failure"] || view["last_failure"])
        end
        raise Error.new("wait-timeout", "Not over", "job #{view["id"]} is #{view["state"]} after #{timeout} s") if left.zero?
      end
    end

    # `gone` if the job waited, `stopping` if it runs.
    def cancel(job) = @http.call("DELETE", path_of(job)).first["status"]

    # What happens from now on: an Enumerator of hashes with `kind`. After a broken connection it goes on with `{"kind" => "reconnected"}`:
    # events between may be missing.
    def events(topic: nil, job: nil, kinds: nil)
      asked = { topic:, job: job && id_of(job), kind: kinds&.join(",") }.compact
      path = "#{@tenant}/events?#{URI.encode_www_form(asked)}"
      heard, started = Queue.new, Queue.new
      thread = Thread.new { listen(path, heard, started) }
      # The stream begins now, not with the first `next`.
      error = started.pop and raise error

      Enumerator.new do |out|
        loop { (event = heard.pop).is_a?(Error) ? raise(event) : out << event }
      ensure
        thread.kill
      end
    end

    # Works the jobs of a topic with `handler = "external"` until `stop` or SIGTERM; then what runs is ended and settled.
    #
    # The block gets a Job, on a thread; what it returns is the result. It raises Snooze, Retry or Reject; any other error is a retry.
    def work(topic, concurrency: 1, lease: 60, name: nil, &run)
      worker = Worker.new(@http, @tenant, quote(topic), lease, name, -> { @stopped }, &run)
      @workers << worker
      worker.start(concurrency, -> { stop })
    end

    # Ends `work`, now or as soon as it is called: no job is claimed any more.
    def stop
      @stopped = true
      @workers.each(&:interrupt)
    end

    private

    def send_jobs(topic, jobs, is_list)
      headers, made = { "Idempotency-Key" => SecureRandom.uuid }, []
      if @http.repeats? && jobs.any? { |job| job[:id] || job[:unique] }
        headers = {} # That key and these exclude each other: ids tell a repeated push from another one's.
        jobs.each { |job| made << (job[:id] = SecureRandom.uuid) unless job[:id] }
      end
      answer, tried = @http.call("POST", "#{@tenant}/topics/#{quote(topic)}/jobs", is_list ? { jobs: } : jobs.first, headers:)
      answer.fetch("warnings", []).each { |warning| warn "gristmill: #{warning}" }
      stored = tried > 1 ? made : [] # by an earlier try
      (is_list ? answer["jobs"] : [answer]).map do |it|
        Pushed.new(it["id"], stored.include?(it["id"]) ? "stored" : it["status"], it["problem"])
      end
    end

    # A job as the API takes it.
    def fields(body, options)
      job = Gristmill.bytes?(body) ? { body_base64: Base64.strict_encode64(body) } : { body: }
      traceparent = options[:traceparent]
      options = options.merge(metadata: (options[:metadata] || {}).merge(traceparent:)) if traceparent
      options.except(:traceparent).compact.each do |name, value|
        case name
        when :delay, :ttl, :keep_result then job[:"#{name}_ms"] = (value * 1000).round
        when :at then job[:at_ms] = (value.to_f * 1000).round
        when :after then job[:after] = value.map { |it| id_of(it) }
        else job[name == :attempts ? :attempts_max : name] = value
        end
      end
      job
    end

    # Puts events into `heard`, and into `started` whether the first stream began.
    def listen(path, heard, started)
      @http.send_request("GET", path, nil, {}, QUIET) do |answer|
        started ? started << nil : heard << { "kind" => "reconnected" }
        started, rest, kind = nil, +"", nil
        answer.read_body do |text|
          rest << text
          while (line = rest.slice!(/\A.*\n/))
            name, value = line.chomp.split(": ", 2)
            kind = value if name == "event"
            heard << { "kind" => kind, **JSON.parse(value) } if name == "data"
          end
        end
      end
      raise Error.new("unreachable", "No answer", "the stream has ended")
    rescue Error => e
      return (started || heard) << e if started || !e.temporary?

      sleep 1
      retry
    end

    def id_of(job) = job.respond_to?(:id) ? job.id : job

    def path_of(job) = "#{@tenant}/jobs/#{quote(id_of(job))}"

    def quote(text) = ERB::Util.url_encode(text)
  end
end
