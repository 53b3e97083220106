//! From the greeting to an agreed export: fixed newstyle negotiation.
//!
//! Invariant: after each reply the stream is at the begin of the next option, whatever the option was.

use super::export::{Export, ExportDirectory};
use super::front::{BLOCK_BYTES_PREFERRED, Front, PAYLOAD_BYTES_MAX, transmission_flags};
use super::option::{self, InfoKind, MetaQuery, Opt, Reply};
use super::session::SessionError;
use super::wire::{be32, be64};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest data of an option that is looked at, bytes: a name and a few queries.
const OPTION_DATA_BYTES_MAX: u32 = 32 << 10;
/// The longest data of an option that is read off the stream to go on, bytes.
const OPTION_DRAIN_BYTES_MAX: u32 = 1 << 20;
/// Replies are sent when so many bytes are waiting.
const FLUSH_BYTES: usize = 64 << 10;

/// What client and server agreed on.
pub(super) struct Agreed<E> {
    pub export: E,
    /// Answers are structured.
    pub structured: bool,
    /// The client may ask for `base:allocation`.
    pub allocation: bool,
}

/// What an option led to.
enum Step<E> {
    Next,
    Serve(E),
    End,
}

struct Negotiation<'a, D, R, W> {
    front: &'a Front<D>,
    reader: &'a mut R,
    writer: &'a mut W,
    out: Vec<u8>,
    no_zeroes: bool,
    structured: bool,
    /// The export whose allocation the client selected.
    allocation_of: Option<Vec<u8>>,
}

/// Runs the handshake; `None` when the client ended it.
pub(super) async fn negotiate<D, R, W>(
    front: &Front<D>,
    reader: &mut R,
    writer: &mut W,
) -> Result<Option<Agreed<D::Export>>, SessionError>
where
    D: ExportDirectory,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    writer.write_all(&option::greeting()).await?;
    let flags = reader.read_u32().await?;
    let known = u32::from(option::FIXED_NEWSTYLE | option::NO_ZEROES);
    if flags & !known != 0 {
        return Err(SessionError::ClientFlags(flags));
    }
    let no_zeroes = flags & u32::from(option::NO_ZEROES) != 0;
    let (out, structured) = (Vec::new(), false);
    Negotiation { front, reader, writer, out, no_zeroes, structured, allocation_of: None }.run().await
}

impl<D, R, W> Negotiation<'_, D, R, W>
where
    D: ExportDirectory,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    async fn run(mut self) -> Result<Option<Agreed<D::Export>>, SessionError> {
        let mut data = Vec::new();
        loop {
            let mut header = [0; option::OPTION_BYTES];
            self.reader.read_exact(&mut header).await?;
            if be64(&header, 0) != option::OPTION_MAGIC {
                return Err(SessionError::OptionMagic);
            }
            let (number, len) = (be32(&header, 8), be32(&header, 12));
            let step = if len > OPTION_DATA_BYTES_MAX {
                self.skip(number, len).await?
            } else {
                data.resize(len as usize, 0);
                self.reader.read_exact(&mut data).await?;
                self.option(number, &data).await?
            };
            self.send().await?;
            match step {
                Step::Next => {}
                Step::End => return Ok(None),
                Step::Serve(export) => {
                    let allocation = self.allocation_of.is_some();
                    return Ok(Some(Agreed { export, structured: self.structured, allocation }));
                }
            }
        }
    }

    /// Reads the data of an over-long option off the stream and refuses it.
    async fn skip(&mut self, number: u32, len: u32) -> Result<Step<D::Export>, SessionError> {
        if len > OPTION_DRAIN_BYTES_MAX || number == option::number::EXPORT_NAME {
            return Err(SessionError::OptionLength(len));
        }
        let mut data = (&mut *self.reader).take(u64::from(len));
        if tokio::io::copy(&mut data, &mut tokio::io::sink()).await? < u64::from(len) {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        self.reply(number, Reply::ErrTooBig, &[]);
        Ok(Step::Next)
    }

    async fn option(&mut self, number: u32, data: &[u8]) -> Result<Step<D::Export>, SessionError> {
        let opt = match Opt::decode(number, data) {
            Ok(opt) => opt,
            Err(_) if number == option::number::EXPORT_NAME => return Err(SessionError::UnknownExport),
            Err(error) => {
                self.reply(number, error.reply(), error.to_string().as_bytes());
                return Ok(Step::Next);
            }
        };
        match opt {
            Opt::ExportName(name) => self.export_name(name).await,
            Opt::Abort => {
                self.reply(number, Reply::Ack, &[]);
                Ok(Step::End)
            }
            _ if self.front.is_stopping() => {
                self.reply(number, Reply::ErrShutdown, &[]);
                Ok(Step::Next)
            }
            Opt::List => self.list(number).await,
            Opt::Info(info) => Ok(self.describe(number, &info).await.map_or(Step::Next, |_| Step::Next)),
            Opt::Go(info) => Ok(self.describe(number, &info).await.map_or(Step::Next, Step::Serve)),
            Opt::StructuredReply => {
                self.structured = true;
                self.reply(number, Reply::Ack, &[]);
                Ok(Step::Next)
            }
            Opt::ListMeta(query) => {
                self.list_meta(number, &query).await;
                Ok(Step::Next)
            }
            Opt::SetMeta(query) => {
                self.set_meta(number, &query).await;
                Ok(Step::Next)
            }
        }
    }

    fn reply(&mut self, number: u32, reply: Reply, data: &[u8]) {
        option::put_reply(&mut self.out, number, reply, data);
    }

    async fn send(&mut self) -> Result<(), SessionError> {
        if !self.out.is_empty() {
            self.writer.write_all(&self.out).await?;
            self.out.clear();
        }
        Ok(self.writer.flush().await?)
    }

    async fn find(&self, name: &[u8]) -> Option<D::Export> {
        self.front.directory().open(std::str::from_utf8(name).ok()?).await
    }

    /// The option without replies: an unknown name can only end the session.
    async fn export_name(&mut self, name: &[u8]) -> Result<Step<D::Export>, SessionError> {
        let export = self.find(name).await.ok_or(SessionError::UnknownExport)?;
        if self.front.is_stopping() {
            return Ok(Step::End);
        }
        self.keep_contexts_of(name);
        self.out.extend_from_slice(&export.size_bytes().to_be_bytes());
        self.out.extend_from_slice(&transmission_flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            self.out.extend_from_slice(&[0; 124]);
        }
        Ok(Step::Serve(export))
    }

    async fn list(&mut self, number: u32) -> Result<Step<D::Export>, SessionError> {
        for name in self.front.directory().names() {
            let mut data = (name.len() as u32).to_be_bytes().to_vec();
            data.extend_from_slice(name.as_bytes());
            self.reply(number, Reply::Server, &data);
            if self.out.len() >= FLUSH_BYTES {
                self.send().await?;
            }
        }
        self.reply(number, Reply::Ack, &[]);
        Ok(Step::Next)
    }

    /// Answers INFO and GO; the export when it is there.
    async fn describe(&mut self, number: u32, info: &option::Info<'_>) -> Option<D::Export> {
        let Some(export) = self.find(info.name).await else {
            self.reply(number, Reply::ErrUnknown, b"no export has this name");
            return None;
        };
        let flags = transmission_flags(self.structured);
        self.reply(number, Reply::Info, &option::export_info(export.size_bytes(), flags));
        let sizes = option::block_size_info(1, BLOCK_BYTES_PREFERRED, PAYLOAD_BYTES_MAX);
        self.reply(number, Reply::Info, &sizes);
        if info.wants(InfoKind::Name) {
            let mut data = (InfoKind::Name as u16).to_be_bytes().to_vec();
            data.extend_from_slice(info.name);
            self.reply(number, Reply::Info, &data);
        }
        self.reply(number, Reply::Ack, &[]);
        if number == option::number::GO {
            self.keep_contexts_of(info.name);
        }
        Some(export)
    }

    /// Contexts count only for the export that they were selected for.
    fn keep_contexts_of(&mut self, name: &[u8]) {
        self.allocation_of = self.allocation_of.take().filter(|selected| selected == name);
    }

    fn context(&mut self, number: u32, id: u32) {
        let mut data = id.to_be_bytes().to_vec();
        data.extend_from_slice(option::ALLOCATION_CONTEXT.as_bytes());
        self.reply(number, Reply::MetaContext, &data);
    }

    /// Whether contexts of the export may be spoken of; the refusal is sent.
    async fn may_query(&mut self, number: u32, query: &MetaQuery<'_>) -> bool {
        if !self.structured {
            self.reply(number, Reply::ErrInvalid, b"contexts need structured replies");
            return false;
        }
        if self.find(query.name).await.is_none() {
            self.reply(number, Reply::ErrUnknown, b"no export has this name");
            return false;
        }
        true
    }

    async fn list_meta(&mut self, number: u32, query: &MetaQuery<'_>) {
        if self.may_query(number, query).await {
            if query.is_empty || query.allocation || query.namespace {
                self.context(number, 0);
            }
            self.reply(number, Reply::Ack, &[]);
        }
    }

    async fn set_meta(&mut self, number: u32, query: &MetaQuery<'_>) {
        self.allocation_of = None;
        if self.may_query(number, query).await {
            if query.allocation {
                self.allocation_of = Some(query.name.to_vec());
                self.context(number, option::ALLOCATION_CONTEXT_ID);
            }
            self.reply(number, Reply::Ack, &[]);
        }
    }
}
