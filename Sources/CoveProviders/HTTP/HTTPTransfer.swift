internal import CCurl
internal import CoveCore
internal import Glibc
internal import Synchronization

/// One request on its way: an easy handle of libcurl, touched by the event loop's thread only once it is submitted.
final class HTTPTransfer: @unchecked Sendable {
    /// The bytes kept of a body that no receiver takes, and of all headers.
    static let bodyLimit = 4 << 20
    private static let headerLimit = 128 << 10

    let handle: UnsafeMutableRawPointer
    let isBulk: Bool
    private let request: HTTPRequest
    private let receiver: (any BodyReceiver)?
    private var headers: UnsafeMutablePointer<curl_slist>?
    private let message = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    private var head = HTTPHead()
    private var headerBytes = 0
    private var hasBegun = false
    /// The empty line that ends the head has come.
    private var isHeadWhole = false
    private var delivered: Int64 = 0
    private var body: [UInt8] = []
    private var sent: Int64 = 0
    /// The first bytes of the body, read before anything is sent.
    private var first: [UInt8] = []
    private var refusal: ProviderError?
    private let answer = Mutex<Answer>(.none)

    /// Who waits, and whether it is over: both come once, in any order.
    private enum Answer {
        case none
        case waiting(@Sendable (Result<HTTPResponse, HTTPFailure>) -> Void)
        case early(Result<HTTPResponse, HTTPFailure>)
        case over
    }

    init(
        _ request: HTTPRequest,
        _ receiver: (any BodyReceiver)?,
        _ options: HTTPOptions,
        _ login: HTTPOptions.Login?,
        _ scheme: HTTPOptions.Scheme
    ) throws(ProviderError) {
        guard let handle = curl_easy_init() else { throw .failed("libcurl has no memory", Errno(ENOMEM)) }
        self.handle = handle
        self.request = request
        self.receiver = receiver
        isBulk = request.isBulk
        message.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        configure(options)
        authenticate(login, scheme)
        try describe()
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

    private func configure(_ options: HTTPOptions) {
        let this = Unmanaged.passUnretained(self).toOpaque()
        cove_curl_set_pointer(handle, CURLOPT_PRIVATE, this)
        cove_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, message)
        cove_curl_set_long(handle, CURLOPT_NOSIGNAL, 1)
        cove_curl_set_text(handle, CURLOPT_PROTOCOLS_STR, "http,https")
        cove_curl_set_long(handle, CURLOPT_FOLLOWLOCATION, 0)
        cove_curl_set_long(handle, CURLOPT_PATH_AS_IS, 1)
        cove_curl_set_long(handle, CURLOPT_CONNECTTIMEOUT_MS, Self.milliseconds(options.connectTimeout))
        cove_curl_set_long(handle, CURLOPT_LOW_SPEED_LIMIT, 1)
        cove_curl_set_long(
            handle,
            CURLOPT_LOW_SPEED_TIME,
            max(1, Self.milliseconds(options.stallLimit) / 1000 * request.patience)
        )
        cove_curl_set_long(handle, CURLOPT_TCP_KEEPALIVE, 1)
        cove_curl_set_long(handle, CURLOPT_BUFFERSIZE, 512 << 10)
        cove_curl_set_long(handle, CURLOPT_UPLOAD_BUFFERSIZE, 1 << 20)
        cove_curl_set_long(handle, CURLOPT_NETRC, Int(CURL_NETRC_OPTIONAL.rawValue))
        if let certificates = options.certificates { cove_curl_set_text(handle, CURLOPT_CAINFO, certificates) }
        cove_curl_set_transfer(handle, CURLOPT_HEADERFUNCTION, receiveHeader)
        cove_curl_set_pointer(handle, CURLOPT_HEADERDATA, this)
        cove_curl_set_transfer(handle, CURLOPT_WRITEFUNCTION, receiveBody)
        cove_curl_set_pointer(handle, CURLOPT_WRITEDATA, this)
    }

    private func authenticate(_ login: HTTPOptions.Login?, _ scheme: HTTPOptions.Scheme) {
        switch scheme {
        case .none: cove_curl_set_long(handle, CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        case .basic: cove_curl_set_long(handle, CURLOPT_HTTPAUTH, 1)
        case .digest: cove_curl_set_long(handle, CURLOPT_HTTPAUTH, 2)
        }
        guard scheme != .none, let login else { return }
        cove_curl_set_long(handle, CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        cove_curl_set_text(handle, CURLOPT_USERNAME, login.user)
        cove_curl_set_text(handle, CURLOPT_PASSWORD, login.password)
    }

    private func describe() throws(ProviderError) {
        cove_curl_set_text(handle, CURLOPT_URL, request.url)
        for (name, value) in request.headers {
            // A line break would begin another header.
            guard !value.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
                throw .unsupported("a control character in \(name)")
            }
            // "Name;" is how libcurl is told of an empty value.
            let line = value.isEmpty ? "\(name);" : "\(name): \(value)"
            guard let longer = curl_slist_append(headers, line) else {
                throw .failed("libcurl has no memory", Errno(ENOMEM))
            }
            headers = longer
        }
        cove_curl_set_pointer(handle, CURLOPT_HTTPHEADER, headers)
        let hasBody: Bool
        if case .none = request.body {
            hasBody = request.method == "PUT" || request.method == "POST"
        } else {
            hasBody = true
        }
        if hasBody {
            let this = Unmanaged.passUnretained(self).toOpaque()
            cove_curl_set_long(handle, CURLOPT_UPLOAD, 1)
            cove_curl_set_offset(handle, CURLOPT_INFILESIZE_LARGE, curl_off_t(request.body.size))
            cove_curl_set_transfer(handle, CURLOPT_READFUNCTION, sendBody)
            cove_curl_set_pointer(handle, CURLOPT_READDATA, this)
            cove_curl_set_seek(handle, rewindBody)
            cove_curl_set_pointer(handle, CURLOPT_SEEKDATA, this)
        } else if request.method == "HEAD" {
            cove_curl_set_long(handle, CURLOPT_NOBODY, 1)
        }
        cove_curl_set_text(handle, CURLOPT_CUSTOMREQUEST, request.method)
    }

    private static func milliseconds(_ duration: Duration) -> Int {
        let parts = duration.components
        return max(1, Int(parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000))
    }

    /// Before it is submitted.
    func useNewConnection() { cove_curl_set_long(handle, CURLOPT_FRESH_CONNECT, 1) }

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

    // MARK: what libcurl calls

    fileprivate func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
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
    fileprivate func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
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
            return true
        } catch {
            refusal = error
            return false
        }
    }

    /// Reads the first bytes to send: a snapshot that has ended already begins no request.
    func prepare() throws(ProviderError) {
        guard case .content(let source, let range) = request.body, !range.isEmpty else { return }
        var bytes = [UInt8](repeating: 0, count: Int(min(64 << 10, range.upperBound - range.lowerBound)))
        let result = bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(ProviderError) in try source.read(at: range.lowerBound, into: buffer) }
        }
        first = Array(bytes.prefix(max(0, try result.get())))
    }

    /// Gives on what the receiver gathered; false when it wants no more.
    func flush() -> Bool {
        guard hasBegun, let receiver, head.isSuccess else { return true }
        do throws(ProviderError) {
            try receiver.flush()
            return true
        } catch {
            refusal = error
            return false
        }
    }

    fileprivate func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
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

    fileprivate func seekBody(to offset: Int64) -> Bool {
        guard (0...request.body.size).contains(offset) else { return false }
        sent = offset
        return true
    }
}

private func transfer(_ pointer: UnsafeMutableRawPointer?) -> HTTPTransfer? {
    pointer.map { Unmanaged<HTTPTransfer>.fromOpaque($0).takeUnretainedValue() }
}

private func receiveHeader(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    let isTaken = transfer(this)?.takeHeader(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? false
    return isTaken ? size * count : 0
}

private func receiveBody(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    transfer(this)?.takeBody(UnsafeRawBufferPointer(start: bytes, count: size * count)) ?? -1
}

private func sendBody(
    _ bytes: UnsafeMutablePointer<CChar>?,
    _ size: Int,
    _ count: Int,
    _ this: UnsafeMutableRawPointer?
)
    -> Int
{
    transfer(this)?.giveBody(UnsafeMutableRawBufferPointer(start: bytes, count: size * count))
        ?? cove_curl_abort_reading()
}

private func rewindBody(_ this: UnsafeMutableRawPointer?, _ offset: curl_off_t, _ origin: Int32) -> Int32 {
    let isDone = origin == SEEK_SET && transfer(this)?.seekBody(to: Int64(offset)) == true
    return isDone ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL
}
