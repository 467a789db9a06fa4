internal import CCurl
internal import CoveCore
internal import Glibc
internal import Synchronization

/// One request on its way: an easy handle of libcurl, touched by the event loop's thread only once it is submitted.
final class HTTPTransfer: @unchecked Sendable {
    /// The bytes kept of a body that no receiver takes, and of all headers.
    static let bodyLimit = 4 << 20
    private static let headerLimit = 128 << 10
    /// Larger bodies are sent only once the server says that it wants them.
    private static let expectedSize: Int64 = 1 << 20

    let handle: UnsafeMutableRawPointer
    let isBulk: Bool
    let request: HTTPRequest
    /// The server is asked whether it wants the body before that is sent.
    let expects: Bool
    private let receiver: (any BodyReceiver)?
    /// As libcurl has the lines of the request.
    var headers: UnsafeMutablePointer<curl_slist>?
    let message = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    private var head = HTTPHead()
    private var headerBytes = 0
    private var hasBegun = false
    /// The empty line that ends the head has come.
    private var isHeadWhole = false
    /// The server has said that it wants the body.
    private var isWelcome = false
    private var delivered: Int64 = 0
    private var body: [UInt8] = []
    private var sent: Int64 = 0
    /// The first bytes of the body, read before anything is sent.
    private var first: [UInt8] = []
    private var refusal: ProviderError?
    /// How often the request was about to be sent.
    private var attempts = 0
    /// Where it is noted that the receiver holds bytes back; nil when it does not, or nothing runs yet.
    private var gathering: HTTPQueue.Gathering?
    private var isGathering = false
    private let answer = Mutex<Answer>(.none)

    /// Who waits, and whether it is over: both come once, in any order.
    private enum Answer {
        case none
        case waiting(@Sendable (Result<HTTPResponse, HTTPFailure>) -> Void)
        case early(Result<HTTPResponse, HTTPFailure>)
        case over
    }

    /// The authorization is the value of that header.
    init(
        _ request: HTTPRequest,
        _ receiver: (any BodyReceiver)?,
        _ options: HTTPOptions,
        authorization: String? = nil,
        mayExpect: Bool = true
    ) throws(ProviderError) {
        guard let handle = curl_easy_init() else { throw .failed("libcurl has no memory", Errno(ENOMEM)) }
        self.handle = handle
        self.request = request
        self.receiver = receiver
        isBulk = request.isBulk
        expects = mayExpect && request.body.size > Self.expectedSize
        message.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        configure(options)
        try describe(authorization)
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(headers)
        message.deallocate()
    }

    static func of(_ handle: UnsafeMutableRawPointer) -> HTTPTransfer? {
        var pointer: UnsafeMutableRawPointer?
        guard cove_curl_get_pointer(handle, CURLINFO_PRIVATE, &pointer) == CURLE_OK, let pointer else { return nil }
        return Unmanaged<HTTPTransfer>.fromOpaque(pointer).takeUnretainedValue()
    }

    // MARK: the end

    func onEnd(_ body: @escaping @Sendable (Result<HTTPResponse, HTTPFailure>) -> Void) {
        let early = answer.withLock { answer -> Result<HTTPResponse, HTTPFailure>? in
            guard case .early(let result) = answer else {
                answer = .waiting(body)
                return nil
            }
            answer = .over
            return result
        }
        if let early { body(early) }
    }

    /// Answers who waits; only the first end counts.
    func end(_ result: Result<HTTPResponse, HTTPFailure>) {
        let waiter = answer.withLock { answer -> (@Sendable (Result<HTTPResponse, HTTPFailure>) -> Void)? in
            switch answer {
            case .none: answer = .early(result)
            case .waiting(let body):
                answer = .over
                return body
            case .early, .over: break
            }
            return nil
        }
        waiter?(result)
    }

    var hasEnded: Bool {
        answer.withLock { answer in
            switch answer {
            case .none, .waiting: false
            case .early, .over: true
            }
        }
    }

    func finish(_ code: CURLcode) {
        // A body that is empty begins too.
        if code == CURLE_OK, isHeadWhole, !hasBegun { _ = begin() }
        _ = flush()
        if let refusal { return end(.failure(HTTPFailure(error: refusal, hasDelivered: delivered > 0))) }
        if attempts > 1 {
            let text = "the line broke before the answer"
            return end(.failure(HTTPFailure(CURLE_GOT_NOTHING, text, hasDelivered: false)))
        }
        guard code == CURLE_OK else {
            message[Int(CURL_ERROR_SIZE) - 1] = 0
            var text = String(cString: message)
            if text.isEmpty { text = String(cString: curl_easy_strerror(code)) }
            return end(.failure(HTTPFailure(code, text, hasDelivered: delivered > 0)))
        }
        guard isHeadWhole else {
            // To libcurl an answer without a body is over when the line is.
            return end(.failure(HTTPFailure(CURLE_GOT_NOTHING, "the answer broke off", hasDelivered: delivered > 0)))
        }
        end(.success(HTTPResponse(head: head, body: body)))
    }

    /// The server took a body without having answered the question whether it wants it.
    var wasIgnored: Bool { expects && !isWelcome && head.isSuccess }

    // MARK: what libcurl calls

    /// False for a request that went once already.
    func maySend() -> Bool {
        attempts += 1
        return attempts == 1
    }

    func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
        headerBytes += line.count
        guard headerBytes < Self.headerLimit else {
            refusal = .failed("the server sends endless headers", nil)
            return false
        }
        let text = String(decoding: line, as: UTF8.self)
        if text.hasPrefix("HTTP/") {
            // A first, intermediate or final answer: only the last one counts.
            head = HTTPHead()
            isHeadWhole = false
            head.status = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
            if head.status == 100 { isWelcome = true }
            body = []
            return true
        }
        if Self.trimmed(Substring(text)).isEmpty { isHeadWhole = true }
        guard let colon = text.firstIndex(of: ":") else { return true }
        let value = text[text.index(after: colon)...]
        head.add(Self.trimmed(text[..<colon]).lowercased(), Self.trimmed(value))
        return true
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }

    private func begin() -> Bool {
        hasBegun = true
        guard let receiver, head.isSuccess else { return true }
        do throws(ProviderError) {
            try receiver.begin(head)
            return true
        } catch {
            refusal = error
            return false
        }
    }

    /// Answers as libcurl wants it: how many bytes were taken, or a number of its own to rest or to end.
    func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        if !hasBegun, !begin() { return -1 }
        if let receiver, head.isSuccess, receiver.isFull { return Int(CURL_WRITEFUNC_PAUSE) }
        // Anything but the count ends the transfer, also when the count is 0.
        return take(bytes) ? bytes.count : -1
    }

    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let receiver, head.isSuccess else {
            let room = Self.bodyLimit - body.count
            if bytes.count > room, head.isSuccess {
                refusal = .failed("the server's answer is too long", nil)
                return false
            }
            body.append(contentsOf: bytes.prefix(max(0, room)))
            return true
        }
        do throws(ProviderError) {
            delivered += Int64(bytes.count)
            try receiver.receive(bytes)
            if !isGathering {
                isGathering = true
                gathering?.add(self)
            }
            return true
        } catch {
            refusal = error
            return false
        }
    }

    /// Reads the first bytes to send: a snapshot that has ended already begins no request.
    func prepare(_ gathering: HTTPQueue.Gathering) throws(ProviderError) {
        self.gathering = gathering
        guard case .content(let source, let range) = request.body, !range.isEmpty else { return }
        var bytes = [UInt8](repeating: 0, count: Int(min(64 << 10, range.upperBound - range.lowerBound)))
        let result = bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(ProviderError) in try source.read(at: range.lowerBound, into: buffer) }
        }
        first = Array(bytes.prefix(max(0, try result.get())))
    }

    /// Gives on what the receiver gathered; false when it wants no more.
    func flush() -> Bool {
        isGathering = false
        guard hasBegun, let receiver, head.isSuccess else { return true }
        do throws(ProviderError) {
            try receiver.flush()
            return true
        } catch {
            refusal = error
            return false
        }
    }

    func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = Int(min(Int64(buffer.count), request.body.size - sent))
        guard count > 0 else { return 0 }
        switch request.body {
        case .none: return 0
        case .bytes(let bytes):
            bytes.withUnsafeBytes {
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[Int(sent)..<Int(sent) + count]))
            }
            sent += Int64(count)
            return count
        case .content(let source, let range):
            if sent < first.count {
                let part = first[Int(sent)...].prefix(count)
                buffer.copyBytes(from: part)
                sent += Int64(part.count)
                return part.count
            }
            do throws(ProviderError) {
                let part = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
                let read = try source.read(at: range.lowerBound + sent, into: part)
                guard read > 0 else { throw .failed("the content ended early", .inputOutput) }
                sent += Int64(read)
                return read
            } catch {
                refusal = error
                return cove_curl_abort_reading()
            }
        }
    }

    func seekBody(to offset: Int64) -> Bool {
        guard (0...request.body.size).contains(offset) else { return false }
        sent = offset
        return true
    }
}
