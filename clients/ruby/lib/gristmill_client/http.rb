# frozen_string_literal: true

require "json"
require "net/http"
require "openssl"

module Gristmill
  # What the server refused, by its problem document. `status` is 0 without an answer; then `code` is `unreachable` or `wait-timeout`.
  class Error < StandardError
    attr_reader :code, :title, :detail, :status, :retry_after

    def initialize(code, title, detail, status = 0, retry_after = 0)
      super("#{code}: #{detail}")
      @code, @title, @detail, @status, @retry_after = code, title, detail, status, retry_after
    end

    # Whether another try may go better.
    def temporary? = [429, 502, 503, 504].include?(status) || code == "unreachable"
  end

  # Sends requests, each on a connection of its own.
  class Http
    # No answer, or half of one.
    BROKEN = [SystemCallError, IOError, SocketError, Timeout::Error, Net::ProtocolError, Net::HTTPBadResponse, OpenSSL::SSL::SSLError, JSON::ParserError].freeze
    # Seconds. If the server asks for more patience, the caller gets its error.
    MOST_WAIT = 60

    def initialize(server, token, tries)
      @server, @token, @tries = URI(server), token, tries
      raise ArgumentError, "the address of a server begins with http:// or https://, not: #{server}" unless @server.is_a?(URI::HTTP)
    end

    def repeats? = true

    # The answer's document, and how many tries it took. The block gets each connection before it is used.
    def call(method, path, document = nil, headers: {}, tries: @tries, &opened)
      tried = 1
      begin
        send_request(method, path, document, headers, 60, opened) { |answer| [JSON.parse(answer.body), tried] }
      rescue Error => e
        wait = [0.1 * 2**tried * rand(0.5..1), e.retry_after].max
        raise if tried >= tries || !e.temporary? || wait > MOST_WAIT

        sleep wait
        tried += 1
        retry
      end
    end

    # Yields an answer whose body has not been read.
    def send_request(method, path, document, headers, timeout, opened = nil)
      request = Net::HTTPGenericRequest.new(method, !document.nil?, true, @server.path.chomp("/") + path, headers)
      request["Authorization"] = "Bearer #{@token}" if @token
      request.content_type = "application/json"
      request.body = JSON.generate(document) if document
      http = Net::HTTP.new(@server.host, @server.port)
      http.use_ssl, http.open_timeout, http.read_timeout, http.max_retries = @server.scheme == "https", timeout, timeout, 0
      http.start do
        opened&.call(http)
        http.request(request) do |answer|
          raise problem(answer) unless answer.is_a?(Net::HTTPSuccess)

          return yield(answer)
        end
      end
    rescue *BROKEN => e
      # Without the user and the password of the address: they are nobody's business in a log.
      server = @server.to_s[/[^@]*\z/]
      detail = "failed to get an answer of the server at #{server}: #{e.message}; does it run there, with that scheme?"
      raise Error.new("unreachable", "No answer", detail)
    end

    private

    def problem(answer)
      said = { "code" => "no-problem-document", "title" => answer.message, "detail" => answer.read_body.to_s[0, 1000] } # of a proxy
      said["detail"] = "the server redirects to #{answer["Location"]}: name that address" if answer.is_a?(Net::HTTPRedirection)
      said = JSON.parse(answer.body) if answer["Content-Type"].to_s.start_with?("application/problem+json")
      Error.new(*said.values_at("code", "title", "detail"), answer.code.to_i, answer["Retry-After"].to_i)
    end
  end
end
