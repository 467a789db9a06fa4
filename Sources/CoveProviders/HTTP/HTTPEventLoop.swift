internal import CCurl
internal import CoveCore
internal import Glibc
internal import Synchronization

/// The thread that moves the bytes of all transfers of a client, around one multi handle of libcurl.
final class HTTPEventLoop: Sendable {
    private struct Inbox {
        var arriving: [HTTPTransfer] = []
        var cancelled: [HTTPTransfer] = []
        var resumed: [HTTPTransfer] = []
        var isEnding = false
    }

    /// curl_multi_wakeup(3) may be called from any thread; all else happens on the loop's own.
    private struct Multi: @unchecked Sendable {
        let handle: UnsafeMutableRawPointer
    }

    private let multi: Multi
    private let inbox = Mutex(Inbox())
    private let options: HTTPOptions

    init(_ options: HTTPOptions) throws(ProviderError) {
        guard Self.isReady, let handle = curl_multi_init() else { throw .failed("libcurl can't start", Errno(ENOMEM)) }
        multi = Multi(handle: handle)
        self.options = options
        cove_curl_multi_set_long(handle, CURLMOPT_MAXCONNECTS, options.parallelRequests)
        cove_curl_multi_set_long(handle, CURLMOPT_MAX_TOTAL_CONNECTIONS, options.parallelRequests)
        do throws(Errno) {
            try BlockingThread.start { [self] in run() }
        } catch {
            curl_multi_cleanup(handle)
            throw .failed("no thread for HTTP", error)
        }
    }

    private static let isReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK

    func submit(_ transfer: HTTPTransfer) {
        let (isEnding, isFirst) = put { $0.arriving.append(transfer) }
        if isEnding { return transfer.end(.failure(HTTPFailure(error: .cancelled))) }
        if isFirst { curl_multi_wakeup(multi.handle) }
    }

    func cancel(_ transfer: HTTPTransfer) {
        let (isEnding, isFirst) = put { $0.cancelled.append(transfer) }
        if isFirst, !isEnding { curl_multi_wakeup(multi.handle) }
    }

    /// Makes a transfer go on whose receiver was full.
    func resume(_ transfer: HTTPTransfer) {
        let (isEnding, isFirst) = put { $0.resumed.append(transfer) }
        if isFirst, !isEnding { curl_multi_wakeup(multi.handle) }
    }

    /// Adds to the inbox; true when the loop has been told of nothing yet, and must be woken.
    private func put(_ add: (inout Inbox) -> Void) -> (isEnding: Bool, isFirst: Bool) {
        inbox.withLock { inbox in
            if inbox.isEnding { return (true, false) }
            let isFirst = inbox.arriving.isEmpty && inbox.cancelled.isEmpty && inbox.resumed.isEmpty
            add(&inbox)
            return (false, isFirst)
        }
    }

    /// Ends the thread, and every transfer as cancelled.
    func end() {
        inbox.withLock { $0.isEnding = true }
        curl_multi_wakeup(multi.handle)
    }

    private func run() {
        var queue = HTTPQueue(options, multi.handle)
        while true {
            let new = inbox.withLock { inbox in
                defer { inbox = Inbox(isEnding: inbox.isEnding) }
                return inbox
            }
            for transfer in new.arriving { queue.add(transfer) }
            for transfer in new.cancelled { queue.cancel(transfer) }
            for transfer in new.resumed { queue.resume(transfer) }
            if new.isEnding { break }
            queue.startNext()
            var running: Int32 = 0
            curl_multi_perform(multi.handle, &running)
            queue.flush()
            if queue.takeFinished() { continue }
            curl_multi_poll(multi.handle, nil, 0, 60_000, nil)
        }
        queue.endAll()
        curl_multi_cleanup(multi.handle)
    }
}
