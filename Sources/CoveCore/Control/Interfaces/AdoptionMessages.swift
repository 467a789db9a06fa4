extension ItemInterface {
    /// What `Adopt` takes.
    public struct AdoptRequest: Codable, Sendable {
        /// The item.
        public var path: PathParameter
        /// The absolute path of a file, as text.
        public var file: String
        /// The bytes of that path in base64, where they are no text.
        public var fileBase64: String?
        /// Size and date tell enough where there is no checksum.
        public var trustDates: Bool?
        /// Nothing is taken.
        public var isTrial: Bool?

        private enum CodingKeys: String, CodingKey {
            case file, trustDates, isTrial
            case fileBase64 = "file_base64"
        }

        /// Makes a request.
        public init(path: PathParameter, file: [UInt8], trustDates: Bool, isTrial: Bool) {
            self.path = path
            let own = PathParameter(RemotePath(unchecked: Array(file.drop { $0 == 0x2F })))
            self.file = "/" + (own.path ?? String(decoding: file.drop { $0 == 0x2F }, as: UTF8.self))
            fileBase64 = own.pathBase64
            self.trustDates = trustDates
            self.isTrial = isTrial
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            file = try members.decode(String.self, forKey: .file)
            fileBase64 = try members.decodeIfPresent(String.self, forKey: .fileBase64)
            trustDates = try members.decodeIfPresent(Bool.self, forKey: .trustDates)
            isTrial = try members.decodeIfPresent(Bool.self, forKey: .isTrial)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(file, forKey: .file)
            try members.encodeIfPresent(fileBase64, forKey: .fileBase64)
            try members.encodeIfPresent(trustDates, forKey: .trustDates)
            try members.encodeIfPresent(isTrial, forKey: .isTrial)
        }

        /// The file's path; nil for one that is not absolute.
        public func filePath() throws(VarlinkError) -> [UInt8]? {
            var parameter = PathParameter()
            (parameter.path, parameter.pathBase64) = (fileBase64 == nil ? file : nil, fileBase64)
            guard file.hasPrefix("/"), let path = try parameter.remotePath() else { return nil }
            return [0x2F] + path.bytes
        }
    }

    /// What `Adopt` replies.
    public struct AdoptReply: Codable, Sendable {
        /// What became of it.
        public var outcome: String
        /// Makes a reply.
        public init(outcome: String) { self.outcome = outcome }
    }
}
