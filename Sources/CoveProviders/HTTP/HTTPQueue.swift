internal import CCurl
internal import CoveCore

/// What runs on an event loop, and what waits for its turn there; only the loop's thread has it.
struct HTTPQueue {
    private let options: HTTPOptions
    private let multi: UnsafeMutableRawPointer
    private var running: [ObjectIdentifier: HTTPTransfer] = [:]
    private var bulkRunning = 0
    private var waiting = Line()
    private var bulkWaiting = Line()
    private let gathering = Gathering()

    /// Those that wait, first come first served; taking the first costs the same however many there are.
    private struct Line {
        private var transfers: [HTTPTransfer?] = []
        private var first = 0

        mutating func append(_ transfer: HTTPTransfer) { transfers.append(transfer) }

        /// The next one that nobody has called off.
        mutating func next() -> HTTPTransfer? {
            while first < transfers.count {
                let transfer = transfers[first].take()
                first += 1
                if first > 1000, first > transfers.count / 2 {
                    transfers.removeFirst(first)
                    first = 0
                }
                if let transfer, !transfer.hasEnded { return transfer }
            }
            transfers.removeAll(keepingCapacity: true)
            first = 0
            return nil
        }
    }

    /// The transfers whose receivers hold bytes back to gather more of them.
    final class Gathering {
        fileprivate(set) var transfers: [HTTPTransfer] = []

        func add(_ transfer: HTTPTransfer) { transfers.append(transfer) }
    }

    init(_ options: HTTPOptions, _ multi: UnsafeMutableRawPointer) {
        self.options = options
        self.multi = multi
    }

    mutating func add(_ transfer: HTTPTransfer) {
        if transfer.isBulk { bulkWaiting.append(transfer) } else { waiting.append(transfer) }
    }

    mutating func startNext() {
        while running.count < options.parallelRequests, let next = waiting.next() { start(next) }
        while running.count < options.parallelRequests, bulkRunning < options.parallelTransfers,
            let next = bulkWaiting.next()
        {
            start(next)
        }
    }

    private mutating func start(_ transfer: HTTPTransfer) {
        do throws(ProviderError) { try transfer.prepare(gathering) } catch {
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

    private mutating func remove(_ transfer: HTTPTransfer) -> Bool {
        guard running.removeValue(forKey: ObjectIdentifier(transfer)) != nil else { return false }
        if transfer.isBulk { bulkRunning -= 1 }
        curl_multi_remove_handle(multi, transfer.handle)
        return true
    }

    /// One that still waits, or has not arrived yet, is not started once it has ended.
    mutating func cancel(_ transfer: HTTPTransfer) {
        _ = remove(transfer)
        transfer.end(.failure(HTTPFailure(error: .cancelled)))
    }

    func resume(_ transfer: HTTPTransfer) {
        if running[ObjectIdentifier(transfer)] != nil { curl_easy_pause(transfer.handle, CURLPAUSE_CONT) }
    }

    /// Gives on what was held back, for no more of it has come.
    mutating func flush() {
        guard !gathering.transfers.isEmpty else { return }
        let all = gathering.transfers
        gathering.transfers.removeAll(keepingCapacity: true)
        for transfer in all where !transfer.flush() {
            if remove(transfer) { transfer.finish(CURLE_WRITE_ERROR) }
        }
    }

    mutating func takeFinished() -> Bool {
        var (left, any): (Int32, Bool) = (0, false)
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            let code = cove_curl_result(message)
            guard let transfer = HTTPTransfer.of(easy), remove(transfer) else { continue }
            any = true
            transfer.finish(code)
        }
        return any
    }

    mutating func endAll() {
        for transfer in Array(running.values) {
            _ = remove(transfer)
            transfer.end(.failure(HTTPFailure(error: .cancelled)))
        }
        for line in [\HTTPQueue.waiting, \.bulkWaiting] {
            while let transfer = self[keyPath: line].next() {
                transfer.end(.failure(HTTPFailure(error: .cancelled)))
            }
        }
    }
}
