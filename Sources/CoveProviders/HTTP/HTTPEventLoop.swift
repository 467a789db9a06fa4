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
        let isEnding = inbox.withLock { inbox in
            if !inbox.isEnding { inbox.arriving.append(transfer) }
            return inbox.isEnding
        }
        if isEnding { return transfer.end(.failure(HTTPFailure(error: .cancelled))) }
        curl_multi_wakeup(multi.handle)
    }

    func cancel(_ transfer: HTTPTransfer) {
        let isEnding = inbox.withLock { inbox in
            if !inbox.isEnding { inbox.cancelled.append(transfer) }
            return inbox.isEnding
        }
        if !isEnding { curl_multi_wakeup(multi.handle) }
    }

    /// Makes a transfer go on whose receiver was full.
    func resume(_ transfer: HTTPTransfer) {
        inbox.withLock { $0.resumed.append(transfer) }
        curl_multi_wakeup(multi.handle)
    }

    /// Ends the thread, and every transfer as cancelled.
    func end() {
        inbox.withLock { $0.isEnding = true }
        curl_multi_wakeup(multi.handle)
    }

    private func run() {
        var queue = Queue(options)
        while true {
            let new = inbox.withLock { inbox in
                defer { inbox = Inbox(isEnding: inbox.isEnding) }
                return inbox
            }
            for transfer in new.arriving { queue.add(transfer) }
            for transfer in new.cancelled { queue.cancel(transfer, multi.handle) }
            for transfer in new.resumed { queue.resume(transfer) }
            if new.isEnding { break }
            queue.startNext(multi.handle)
            var running: Int32 = 0
            curl_multi_perform(multi.handle, &running)
            queue.flush(multi.handle)
            if queue.takeFinished(multi.handle) { continue }
            curl_multi_poll(multi.handle, nil, 0, 60_000, nil)
        }
        queue.endAll(multi.handle)
        curl_multi_cleanup(multi.handle)
    }

    /// What runs, and what waits for its turn.
    private struct Queue {
        private let options: HTTPOptions
        private var running: [ObjectIdentifier: HTTPTransfer] = [:]
        private var bulkRunning = 0
        private var waiting: [HTTPTransfer] = []
        private var bulkWaiting: [HTTPTransfer] = []

        init(_ options: HTTPOptions) { self.options = options }

        mutating func add(_ transfer: HTTPTransfer) {
            if transfer.isBulk { bulkWaiting.append(transfer) } else { waiting.append(transfer) }
        }

        mutating func startNext(_ multi: UnsafeMutableRawPointer) {
            while running.count < options.parallelRequests, !waiting.isEmpty { start(waiting.removeFirst(), multi) }
            while running.count < options.parallelRequests, bulkRunning < options.parallelTransfers,
                !bulkWaiting.isEmpty
            {
                start(bulkWaiting.removeFirst(), multi)
            }
        }

        private mutating func start(_ transfer: HTTPTransfer, _ multi: UnsafeMutableRawPointer) {
            // Called off before it arrived here.
            if transfer.hasEnded { return }
            do throws(ProviderError) { try transfer.prepare() } catch {
                return transfer.end(.failure(HTTPFailure(error: error)))
            }
            let code = curl_multi_add_handle(multi, transfer.handle)
            guard code == CURLM_OK else {
                let text = String(cString: curl_multi_strerror(code))
                return transfer.end(.failure(HTTPFailure(error: .failed(text, nil))))
            }
            running[ObjectIdentifier(transfer)] = transfer
            if transfer.isBulk { bulkRunning += 1 }
        }

        private mutating func remove(_ transfer: HTTPTransfer, _ multi: UnsafeMutableRawPointer) -> Bool {
            guard running.removeValue(forKey: ObjectIdentifier(transfer)) != nil else { return false }
            if transfer.isBulk { bulkRunning -= 1 }
            curl_multi_remove_handle(multi, transfer.handle)
            return true
        }

        mutating func cancel(_ transfer: HTTPTransfer, _ multi: UnsafeMutableRawPointer) {
            if !remove(transfer, multi) {
                waiting.removeAll { $0 === transfer }
                bulkWaiting.removeAll { $0 === transfer }
            }
            // It may not have arrived yet: once ended, it is not started.
            transfer.end(.failure(HTTPFailure(error: .cancelled)))
        }

        func resume(_ transfer: HTTPTransfer) {
            if running[ObjectIdentifier(transfer)] != nil { curl_easy_pause(transfer.handle, CURLPAUSE_CONT) }
        }

        mutating func flush(_ multi: UnsafeMutableRawPointer) {
            for transfer in running.values where !transfer.flush() {
                _ = remove(transfer, multi)
                transfer.finish(CURLE_WRITE_ERROR)
            }
        }

        mutating func takeFinished(_ multi: UnsafeMutableRawPointer) -> Bool {
            var (left, any): (Int32, Bool) = (0, false)
            while let message = curl_multi_info_read(multi, &left) {
                guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
                let code = cove_curl_result(message)
                guard let transfer = HTTPTransfer.of(easy), remove(transfer, multi) else { continue }
                any = true
                transfer.finish(code)
            }
            return any
        }

        mutating func endAll(_ multi: UnsafeMutableRawPointer) {
            let all = Array(running.values) + waiting + bulkWaiting
            for transfer in all {
                _ = remove(transfer, multi)
                transfer.end(.failure(HTTPFailure(error: .cancelled)))
            }
        }
    }
}
